#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "tensorbus/device/foreign_memory.hpp"
#include "tensorbus/device/memory/deferred_releaser.hpp"
#include "tensorbus/device/memory/device_imports.hpp"
#include "tensorbus/memory/block.hpp"

namespace tensorbus::memory {

// What a participant lends of memory that other allocators made. Each allocation, or row of chunks,
// is a segment of its own, which is known for a while after its last use; each tensor is a block,
// which has its keeper until the last reference to it is gone. Of a pool the last keeper stays
// until whoever was sent the segment has closed it. Thread-safe; no lock is held while the driver
// is called, or a keeper let go of.
class DeviceExports : public BlockHome, public std::enable_shared_from_this<DeviceExports> {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t kMostSegments = 256;
  static constexpr std::size_t kMostClosing = 128;  // beyond that, pools are not lent from
  static constexpr std::chrono::seconds kIdle{5};   // then it is forgotten

  explicit DeviceExports(const Id& self) : self_(self) {}
  ~DeviceExports() override;

  // A block of these bytes. Empty if others cannot be given them: whatever the driver says.
  BlockRef lend(const platform::Gpu& device, const std::byte* first, std::size_t bytes,
                std::shared_ptr<const void> keeper);
  // As Arena's.
  BlockRef find(SegmentId segment, std::uint64_t offset, std::uint64_t generation) const noexcept;
  // Of a segment that has blocks.
  std::shared_ptr<const platform::ForeignMemory> memory_of(SegmentId segment) const;

  // The same. What the borrower that it is sent to keeps it by, until that has closed it; null for
  // what may be freed before.
  std::shared_ptr<const void> held(SegmentId segment) const;

  // Forgets what has not been used for a while, and what its allocator has freed.
  void retire_idle(Clock::time_point now);
  std::vector<SegmentId> take_retired();
  // There is something to look after, after there was nothing; or somebody is to be told of what
  // was retired. Said before the first lend().
  void on_first(std::function<void()> listener) { first_listener_ = std::move(listener); }

  struct Stats {
    std::size_t segments = 0;
    std::size_t blocks = 0;
    std::size_t closing = 0;  // segments of pools that some borrower has yet to close
    std::uint64_t lent = 0;   // blocks, ever
  };
  Stats stats() const;

 private:
  using Memory = std::shared_ptr<const platform::ForeignMemory>;
  // Of a segment of a pool: what keeps it when it has no blocks.
  struct Hold {
    Hold() = default;
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;
    ~Hold() { DeferredReleaser::let_go(std::move(keeper)); }
    DeferredReleaser::Kept keeper;  // under mutex_, until it is retired
  };
  struct Segment {
    Memory memory;
    std::shared_ptr<Hold> hold;
    std::unique_ptr<DeviceImports::Own> own;
    std::size_t blocks = 0;
    Clock::time_point used{};
  };
  using Segments = std::map<SegmentId, Segment>;
  struct Lent {
    Block* block = nullptr;
    DeferredReleaser::Kept keeper;
  };
  using Blocks = std::map<std::uint64_t, Lent>;  // by generation
  class Room;

  bool free(Block& block) noexcept override;
  Segments::iterator segment_holding(const platform::ForeignMemory& memory);
  bool make_segment(platform::ForeignMemory memory);
  bool make_way_for(const platform::ForeignMemory& memory, std::vector<Segment>& gone);
  void retire(Segments::iterator segment, std::vector<Segment>& gone);
  static bool is_due(const Segment& segment, Clock::time_point now);
  std::size_t closing() const;
  BlockRef enter(Room& room, Segments::iterator segment, const std::byte* first,
                 std::size_t bytes) noexcept;

  const Id self_;
  std::function<void()> first_listener_;
  mutable std::mutex mutex_;
  Segments segments_;
  Blocks blocks_;
  std::vector<SegmentId> retired_;
  mutable std::vector<std::weak_ptr<const Hold>> closing_;  // of segments that are retired
  std::uint32_t next_segment_ = 0;
  std::uint64_t next_generation_ = 1;
};

}  // namespace tensorbus::memory
