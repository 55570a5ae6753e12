#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "tensorbus/device/foreign_memory.hpp"
#include "tensorbus/device/memory/device_imports.hpp"
#include "tensorbus/device/order/deferred_releaser.hpp"
#include "tensorbus/memory/block.hpp"
#include "tensorbus/platform/mutex.hpp"

namespace tensorbus::device {

// Memory of other allocators that a participant lends. Each allocation, or row of chunks, is a
// segment, which is kept for a while after its last use. Each tensor is a block, which holds its
// keeper until the last reference to the block is gone. For memory of a pool, the last keeper stays
// until all borrowers that got the segment have closed it. Thread-safe; no lock is held while the
// driver is called or a keeper is released.
class DeviceExports : public memory::BlockHome, public std::enable_shared_from_this<DeviceExports> {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t kMaxSegments = 256;
  static constexpr std::size_t kMaxClosing = 128;  // with more, memory of pools is not lent
  static constexpr std::chrono::seconds kIdle{5};  // until an unused segment is retired

  explicit DeviceExports(const Id& self) : self_(self) {}
  ~DeviceExports() override;

  // Returns a block of these bytes; empty if other processes cannot get them.
  memory::BlockRef lend(const Gpu& device, const std::byte* first, std::size_t bytes,
                        std::shared_ptr<const void> keeper);
  // See Arena.
  memory::BlockRef find(memory::SegmentId segment, std::uint64_t offset,
                        std::uint64_t generation) const noexcept;
  // Returns the memory of a segment that has blocks.
  std::shared_ptr<const ForeignMemory> memory_of(memory::SegmentId segment) const;

  // Returns the hold on a segment that has blocks. The borrower's connection keeps it until the
  // borrower has closed the segment. Returns null for memory that may be freed before that.
  std::shared_ptr<const void> held(memory::SegmentId segment) const;

  // Retires segments that were not used for kIdle, and segments whose memory was freed by its
  // allocator.
  void retire_idle(Clock::time_point now);
  std::vector<memory::SegmentId> take_retired();
  // Sets a function that is called when retire_idle() is due again, or when borrowers must be
  // notified of retired segments. Call this before the first lend().
  void on_first(std::function<void()> listener) { first_listener_ = std::move(listener); }

  struct Stats {
    std::size_t segments = 0;
    std::size_t blocks = 0;
    std::size_t closing = 0;  // of pools, not yet closed by all borrowers
    std::uint64_t lent = 0;   // blocks, in total
  };
  Stats stats() const;

 private:
  using Memory = std::shared_ptr<const ForeignMemory>;
  // Keeps a pool's segment while it has no blocks.
  struct Hold {
    Hold() = default;
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;
    ~Hold() { DeferredReleaser::let_go(std::move(keeper)); }
    DeferredReleaser::Kept keeper;  // guarded by mutex_ until it is retired
  };
  struct Segment {
    Memory memory;
    std::shared_ptr<Hold> hold;
    std::unique_ptr<DeviceImports::Own> own;
    std::size_t blocks = 0;
    Clock::time_point used{};
  };
  using Segments = std::map<memory::SegmentId, Segment>;
  struct Lent {
    memory::Block* block = nullptr;
    DeferredReleaser::Kept keeper;
  };
  using Blocks = std::map<std::uint64_t, Lent>;  // by generation
  class Room;

  bool free(memory::Block& block) noexcept override;
  Segments::iterator segment_holding(const ForeignMemory& memory) TB_REQUIRES(mutex_);
  bool make_segment(ForeignMemory memory) TB_EXCLUDES(mutex_);
  bool make_way_for(const ForeignMemory& memory, std::vector<Segment>& gone) TB_REQUIRES(mutex_);
  void retire(Segments::iterator segment, std::vector<Segment>& gone) TB_REQUIRES(mutex_);
  static bool is_due(const Segment& segment, Clock::time_point now);
  std::size_t closing() const TB_REQUIRES(mutex_);
  memory::BlockRef enter(Room& room, Segments::iterator segment, const std::byte* first,
                         std::size_t bytes) noexcept TB_REQUIRES(mutex_);

  const Id self_;
  std::function<void()> first_listener_;
  mutable platform::Mutex mutex_;
  Segments segments_ TB_GUARDED_BY(mutex_);
  Blocks blocks_ TB_GUARDED_BY(mutex_);
  std::vector<memory::SegmentId> retired_ TB_GUARDED_BY(mutex_);
  // The holds on retired segments.
  mutable std::vector<std::weak_ptr<const Hold>> closing_ TB_GUARDED_BY(mutex_);
  std::uint32_t next_segment_ TB_GUARDED_BY(mutex_) = 0;
  std::uint64_t next_generation_ TB_GUARDED_BY(mutex_) = 1;
};

}  // namespace tensorbus::device
