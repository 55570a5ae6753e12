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

// The GPU memory of one owner, in a borrower: its segments, and the timeline that orders the
// streams of both. A segment is imported and mapped when a tensor in it is first requested, because
// that may start the driver in this process. Leases keep the mapping. Thread-safe.
class ImportedMemory {
 public:
  using Ref = std::shared_ptr<const GpuRange>;

  ImportedMemory();
  // Mappings stay until the streams that use them have finished.
  ~ImportedMemory();
  ImportedMemory(const ImportedMemory&) = delete;
  ImportedMemory& operator=(const ImportedMemory&) = delete;

  // Sets the account to which descriptors are charged. Called before any segment is added.
  void pay_from(memory::PeerAccount account) { account_ = std::move(account); }

  // Adds a segment for the access `grant`; the owner may send it once for each grant. Throws
  // Error(kProtocol) if the segment was added before, and for more segments than an owner can need.
  void add(memory::SegmentId id, memory::Grant grant, platform::Fd fd, std::size_t bytes,
           const GpuUuid& device);
  // Adds a part of the description of another allocator's memory; see ImportedExport.
  void add_export(const Id& owner, bool ours, ExportPart part);
  // Sets a function that is called for each segment of a pool. The object that it returns is
  // released when the segment is retired and closed. Called before any segment is added.
  using OnClosed = std::function<std::shared_ptr<const void>(memory::SegmentId segment)>;
  void on_closed(OnClosed call) { on_closed_ = std::move(call); }
  // Releases a segment when no lease has it and the streams that use it have finished.
  void retire(memory::SegmentId id);
  // Releases retired segments that leases used when they were retired. Returns false if leases
  // still use some.
  bool let_go_of_retired();
  // Returns the mapping; empty if the owner's message has not arrived yet. Throws
  // Error(kUnsupported) or Error(kForked) if this process cannot see or use the device; later calls
  // throw the same error without another attempt. Throws Error(kProtocol) for memory of another
  // size.
  Ref find(memory::SegmentId id, memory::Grant grant);
  // Returns true if the owner's message has arrived.
  bool has(memory::SegmentId id, memory::Grant grant) const noexcept;
  // Returns a descriptor of an arena's segment for another process. Throws Error(kClosed) if there
  // is none, and for memory of another allocator, because it ends with its owner.
  memory::SharedSegment hand_on(memory::SegmentId id, memory::Grant grant) const;
  // Returns false if an earlier find() failed because this process cannot use the segment. Makes no
  // attempt itself.
  bool is_usable(memory::SegmentId id, memory::Grant grant) const noexcept;
  // Returns true if this address lies in one of the mappings.
  bool covers(const std::byte* address) const noexcept;
  // Returns true if this address lies in a mapping of any participant in this process.
  static bool any_covers(const std::byte* address) noexcept;

  // `owner`: a pidfd. Throws Error(kProtocol) for any other descriptor or a second timeline.
  void set_timeline(platform::Fd memory, Timeline::Peer owner);
  // For memory of a dead owner that other processes passed on: all of it is completely written. A
  // private timeline follows the streams of this process.
  void set_timeline_of_the_dead();
  // Returns null if the owner's message has not arrived yet. Valid as long as this object.
  Timeline* timeline() const noexcept;
  // Called when the owner's connection has hung up. An owner without a usable pidfd then counts as
  // dead: see TimelinePages::peer_died().
  void owner_hung_up(bool has_pidfd) noexcept;

 private:
  struct Segment {
    platform::Fd fd;  // kept for hand_on()
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

  OnClosed on_closed_;
  memory::PeerAccount account_;
  // Relaxed: set before the first mapping is made, and callers get addresses from mappings.
  std::atomic<bool> any_wanted_{false};
  mutable platform::Mutex mutex_;
  std::unique_ptr<Timeline> timeline_ TB_GUARDED_BY(mutex_);
  std::map<Name, Segment> segments_ TB_GUARDED_BY(mutex_);
  std::vector<Ref> retired_ TB_GUARDED_BY(mutex_);  // leases may still use these
};

}  // namespace tensorbus::device
