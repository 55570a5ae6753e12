#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "tensorbus/memory/borrowed_export.hpp"
#include "tensorbus/memory/grant.hpp"
#include "tensorbus/memory/timeline.hpp"
#include "tensorbus/platform/cuda_memory.hpp"
#include "tensorbus/platform/error.hpp"

namespace tensorbus::memory {

// What a borrower has of one owner's device memory: its segments, and the timeline that orders the
// streams of both. A segment is imported and mapped when a tensor in it is first wanted, since that
// may be what initialises CUDA here; leases keep the mapping. Thread-safe.
class BorrowedCuda {
 public:
  using Ref = std::shared_ptr<const platform::CudaRange>;

  BorrowedCuda();
  // Mappings stay until the streams that were given them have passed.
  ~BorrowedCuda();
  BorrowedCuda(const BorrowedCuda&) = delete;
  BorrowedCuda& operator=(const BorrowedCuda&) = delete;

  // To do that with it; the owner may send it once for each. Throws Error(kProtocol) for a number
  // that came before, and for more than an owner can need.
  void add(std::uint32_t id, Grant grant, platform::Fd fd, std::size_t bytes,
           const platform::cu::Uuid& device);
  // Of memory that another allocator made. Throws the same; see BorrowedExport.
  void add_export(const Id& owner, bool ours, ExportPart part);
  // It is let go of when no lease has it, and the streams that were given it have passed.
  void retire(std::uint32_t id);
  // Empty if the owner's message has not come yet. Throws Error(kUnsupported) if this process does
  // not see the device, or cannot use CUDA (kForked, too), then as before without another try;
  // Error(kProtocol) if it is no memory of that size.
  Ref find(std::uint32_t id, Grant grant);
  // False: find() has said that this process cannot use it. It tries nothing.
  bool is_usable(std::uint32_t id, Grant grant) const noexcept;
  // Does this address lie in one of them?
  bool covers(const std::byte* address) const noexcept;
  // In one that any participant of this process has of another process?
  static bool any_covers(const std::byte* address) noexcept;

  // `owner`: its pidfd. Throws Error(kProtocol) for what is none, or a second one.
  void set_timeline(platform::Fd memory, Timeline::Peer owner);
  // An event of the owner's streams. Throws Error(kProtocol).
  void add_event(const NamedEvent& event);
  // Null if the owner's message has not come yet. Lives as long as this.
  Timeline* timeline() const noexcept;
  // The owner has hung up. It is dead for who cannot ask its pidfd: see TimelinePages::peer_died().
  void owner_hung_up(bool has_pidfd) noexcept;

 private:
  struct Segment {
    platform::Fd fd;
    std::size_t bytes = 0;
    platform::cu::Uuid device;
    Ref mapping{};
    std::optional<Error> unusable{};
    std::unique_ptr<BorrowedExport> foreign{};
  };
  using Name = std::pair<std::uint32_t, Grant>;
  static Ref map(Segment& segment, Grant grant);
  void let_go_of_unused();

  void enter();

  // Relaxed: whoever asks for an address has it from a mapping.
  std::atomic<bool> any_wanted_{false};
  mutable std::mutex mutex_;
  std::unique_ptr<Timeline> timeline_;
  std::map<Name, Segment> segments_;
  std::vector<Ref> retired_;  // that leases may have
};

}  // namespace tensorbus::memory
