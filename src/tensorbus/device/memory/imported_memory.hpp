#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "tensorbus/device/gpu_memory.hpp"
#include "tensorbus/device/memory/imported_export.hpp"
#include "tensorbus/device/order/timeline.hpp"
#include "tensorbus/memory/grant.hpp"
#include "tensorbus/memory/peer_budget.hpp"
#include "tensorbus/memory/shared_segment.hpp"
#include "tensorbus/platform/error.hpp"

namespace tensorbus::memory {

// What a borrower has of one owner's device memory: its segments, and the timeline that orders the
// streams of both. A segment is imported and mapped when a tensor in it is first wanted, since that
// may be what starts the driver here; leases keep the mapping. Thread-safe.
class ImportedMemory {
 public:
  using Ref = std::shared_ptr<const platform::GpuRange>;

  ImportedMemory();
  // Mappings stay until the streams that were given them have passed.
  ~ImportedMemory();
  ImportedMemory(const ImportedMemory&) = delete;
  ImportedMemory& operator=(const ImportedMemory&) = delete;

  // Who pays for the descriptors that are added from now on. Before any is.
  void pay_from(PeerAccount account) { account_ = std::move(account); }

  // To do that with it; the owner may send it once for each. Throws Error(kProtocol) for a number
  // that came before, and for more than an owner can need.
  void add(SegmentId id, Grant grant, platform::Fd fd, std::size_t bytes,
           const platform::GpuUuid& device);
  // Of memory that another allocator made. Throws the same; see ImportedExport.
  void add_export(const Id& owner, bool ours, ExportPart part);
  // What it makes is let go of when a segment of a pool is retired, and closed. Before any is
  // added.
  using Teller = std::function<std::shared_ptr<const void>(SegmentId segment)>;
  void tell_closed_by(Teller teller) { teller_ = std::move(teller); }
  // It is let go of when no lease has it, and the streams that were given it have passed.
  void retire(SegmentId id);
  // The same, of what leases still had then. False: some have it yet.
  bool let_go_of_retired();
  // Empty if the owner's message has not come yet. Throws Error(kUnsupported) if this process does
  // not see the device, or cannot use it (kForked, too), then as before without another try;
  // Error(kProtocol) if it is no memory of that size.
  Ref find(SegmentId id, Grant grant);
  // Has the owner's message come?
  bool has(SegmentId id, Grant grant) const noexcept;
  // A descriptor of one of an arena, to be handed on. Throws Error(kClosed) if there is none, and
  // of memory of another allocator, which goes with its owner.
  SharedSegment hand_on(SegmentId id, Grant grant) const;
  // False: find() has said that this process cannot use it. It tries nothing.
  bool is_usable(SegmentId id, Grant grant) const noexcept;
  // Does this address lie in one of them?
  bool covers(const std::byte* address) const noexcept;
  // In one that any participant of this process has of another process?
  static bool any_covers(const std::byte* address) noexcept;

  // `owner`: its pidfd. Throws Error(kProtocol) for what is none, or a second one.
  void set_timeline(platform::Fd memory, Timeline::Peer owner);
  // What was left by an owner that is dead and comes from others: all of it is whole. Our streams
  // are followed on a timeline that nobody else has.
  void set_timeline_of_the_dead();
  // Null if the owner's message has not come yet. Lives as long as this.
  Timeline* timeline() const noexcept;
  // The owner has hung up. It is dead for who cannot ask its pidfd: see TimelinePages::peer_died().
  void owner_hung_up(bool has_pidfd) noexcept;

 private:
  struct Segment {
    platform::Fd fd;  // kept: it is what can be handed on
    std::size_t bytes = 0;
    platform::GpuUuid device;
    Ref mapping{};
    std::optional<Error> unusable{};
    std::unique_ptr<ImportedExport> foreign{};
    std::vector<PeerCharge> descriptors{};
  };
  using Name = std::pair<SegmentId, Grant>;
  static Ref map(Segment& segment, Grant grant);
  void start_device_of(const Name& name);
  void let_go_of_unused();

  void enter();

  Teller teller_;
  PeerAccount account_;
  // Relaxed: whoever asks for an address has it from a mapping.
  std::atomic<bool> any_wanted_{false};
  mutable std::mutex mutex_;
  std::unique_ptr<Timeline> timeline_;
  std::map<Name, Segment> segments_;
  std::vector<Ref> retired_;  // that leases may have
};

}  // namespace tensorbus::memory
