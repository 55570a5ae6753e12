#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
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
#include "tensorbus/platform/mutex.hpp"

namespace tensorbus::device {

// A borrower's view of one owner's GPU memory: its segments, and the timeline that orders the
// streams of both. A segment is imported and mapped at the first request of a tensor in it, because
// that may start the driver in this process. Leases keep the mapping. Thread-safe.
class ImportedMemory {
 public:
  using Ref = std::shared_ptr<const GpuRange>;

  ImportedMemory();
  // Mappings stay until the streams that use them have finished.
  ~ImportedMemory();
  ImportedMemory(const ImportedMemory&) = delete;
  ImportedMemory& operator=(const ImportedMemory&) = delete;

  // Sets the account that pays for descriptors. Called before any is added.
  void pay_from(memory::PeerAccount account) { account_ = std::move(account); }

  // Adds a segment for the access `grant`; the owner may send it once for each grant. Throws
  // Error(kProtocol) for a number that came before, and for more than an owner can need.
  void add(memory::SegmentId id, memory::Grant grant, platform::Fd fd, std::size_t bytes,
           const GpuUuid& device);
  // The same for memory of another allocator; see ImportedExport.
  void add_export(const Id& owner, bool ours, ExportPart part);
  // Sets a function for segments of pools. The object that it returns is released when the segment
  // is retired and closed. Called before any segment is added.
  using Teller = std::function<std::shared_ptr<const void>(memory::SegmentId segment)>;
  void tell_closed_by(Teller teller) { teller_ = std::move(teller); }
  // Releases a segment when no lease has it and the streams that use it have finished.
  void retire(memory::SegmentId id);
  // The same for retired segments that leases still used. Returns false if some are still used.
  bool let_go_of_retired();
  // Returns the mapping; empty if the owner's message has not arrived yet. Throws
  // Error(kUnsupported) or Error(kForked) if this process cannot see or use the device, and then
  // always the same without another attempt; Error(kProtocol) for memory of another size.
  Ref find(memory::SegmentId id, memory::Grant grant);
  // Returns true if the owner's message has arrived.
  bool has(memory::SegmentId id, memory::Grant grant) const noexcept;
  // Returns a descriptor of an arena's segment for another process. Throws Error(kClosed) if there
  // is none, and for memory of another allocator, which ends with its owner.
  memory::SharedSegment hand_on(memory::SegmentId id, memory::Grant grant) const;
  // Returns false if find() found that this process cannot use it. Makes no attempt.
  bool is_usable(memory::SegmentId id, memory::Grant grant) const noexcept;
  // Returns true if this address lies in one of the mappings.
  bool covers(const std::byte* address) const noexcept;
  // The same for all mappings of all participants in this process.
  static bool any_covers(const std::byte* address) noexcept;

  // `owner`: a pidfd. Throws Error(kProtocol) for any other descriptor or a second timeline.
  void set_timeline(platform::Fd memory, Timeline::Peer owner);
  // For memory of a dead owner, received from other processes: all of it is completely written. A
  // private timeline follows our own streams.
  void set_timeline_of_the_dead();
  // Returns null if the owner's message has not arrived yet. Valid as long as this object.
  Timeline* timeline() const noexcept;
  // Called when the owner's connection has hung up. An owner without a usable pidfd then counts as
  // dead: see TimelinePages::peer_died().
  void owner_hung_up(bool has_pidfd) noexcept;

 private:
  struct Segment {
    platform::Fd fd;  // kept to pass it on
    std::size_t bytes = 0;
    GpuUuid device;
    Ref mapping{};
    std::optional<Error> unusable{};
    std::unique_ptr<ImportedExport> foreign{};
    std::vector<memory::PeerCharge> descriptors{};
  };
  using Name = std::pair<memory::SegmentId, memory::Grant>;
  static Ref map(Segment& segment, memory::Grant grant);
  void start_device_of(const Name& name);
  void let_go_of_unused() TB_REQUIRES(mutex_);

  void enter();

  Teller teller_;
  memory::PeerAccount account_;
  // Relaxed: a caller gets its address from a mapping.
  std::atomic<bool> any_wanted_{false};
  mutable platform::Mutex mutex_;
  std::unique_ptr<Timeline> timeline_ TB_GUARDED_BY(mutex_);
  std::map<Name, Segment> segments_ TB_GUARDED_BY(mutex_);
  std::vector<Ref> retired_ TB_GUARDED_BY(mutex_);  // leases may still use these
};

}  // namespace tensorbus::device
