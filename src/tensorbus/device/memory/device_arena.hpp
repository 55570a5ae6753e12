#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <tensorbus/values/stats.hpp>
#include <vector>

#include "tensorbus/device/gpu_memory.hpp"
#include "tensorbus/device/order/write_marks.hpp"
#include "tensorbus/memory/block.hpp"
#include "tensorbus/memory/free_extents.hpp"
#include "tensorbus/memory/living_blocks.hpp"
#include "tensorbus/memory/shared_segment.hpp"
#include "tensorbus/platform/mutex.hpp"

namespace tensorbus::device {

struct DeviceArenaOptions {
  std::size_t segment_bytes = std::size_t{64} << 20;  // a larger tensor gets a larger segment
  std::size_t budget_bytes = 0;                       // 0: half of the device's memory
};

// A participant's memory on one device: allocations that can be exported as descriptors, divided
// into blocks. Like Arena it has private records and two pools. A borrower could map any segment
// for writing, so the pools only separate the memory that borrowers are allowed to write. A
// returned block is reused when the stream that wrote it has finished. A loan that is dropped
// unpublished must have no pending work. A segment that was unused for kIdle is returned to the
// device, except the last segment.
//
// Invariants, guarded by `mutex_`:
// 1. Every byte of every segment is in exactly one block, one resting block, or one free extent.
// 2. reserved_bytes, of both pools, never exceeds the budget.
// Thread-safe. Blocks keep their arena alive.
class DeviceArena : public memory::BlockHome, public std::enable_shared_from_this<DeviceArena> {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kIdle{5};
  static std::shared_ptr<DeviceArena> create(const Gpu& device, const DeviceArenaOptions& options,
                                             std::shared_ptr<WriteMarks> marks);

  // Blocks to which streams still write stay until these streams have finished.
  ~DeviceArena() override;

  const Gpu& device() const noexcept { return device_; }

  // Returns a block of at least `bytes`, aligned to kBlockAlignment, from the pool for `most`.
  // Throws Error(kOutOfMemory) that names the limit, or Error(kUnsupported) if the device cannot
  // share memory.
  memory::BlockRef allocate(std::size_t bytes, memory::Grant most = memory::Grant::kRead);
  // See Arena.
  memory::BlockRef find(const void* address) const noexcept;
  memory::BlockRef find(memory::SegmentId segment, std::uint64_t offset,
                        std::uint64_t generation) const noexcept;

  memory::SharedSegment share_segment(memory::SegmentId id) const;

  // Frees segments that have been idle long enough at `now`. Borrowers must be notified.
  void retire_idle(Clock::time_point now);
  std::vector<memory::SegmentId> take_retired();
  // Sets a function that is called when a segment becomes idle: retire_idle() is due after kIdle.
  // The function must not throw, nor take a lock that callers of this class hold. Call this before
  // the first block is allocated.
  void on_idle(std::function<void()> listener);
  // Called when the participant ends. Blocks may outlive it.
  void close() { on_idle({}); }

  // Returns the use of this arena, without the values of the whole process.
  ArenaUse stats() const;

 private:
  struct Segment {
    GpuAllocation allocation;
    std::shared_ptr<const GpuMapping> mapping;
    memory::Grant max_grant = memory::Grant::kRead;
    std::optional<Clock::time_point> idle_since{};
  };

  DeviceArena(const Gpu& device, const DeviceArenaOptions& options,
              std::shared_ptr<WriteMarks> marks);
  void wake_rested() noexcept TB_REQUIRES(mutex_);
  bool free(memory::Block& block) noexcept override;
  void note_idle(memory::SegmentId segment) noexcept TB_REQUIRES(mutex_);
  void notify_idle() noexcept TB_REQUIRES(mutex_);
  memory::SegmentId free_number() TB_REQUIRES(mutex_);
  memory::FreeExtents& free_of(memory::Grant most) noexcept TB_REQUIRES(mutex_) {
    return free_[static_cast<std::size_t>(most)];
  }
  memory::FreeExtents& free_in(memory::SegmentId segment) noexcept TB_REQUIRES(mutex_) {
    return free_of(segments_.at(segment).max_grant);
  }
  void grow_for(std::size_t bytes, memory::Grant most) TB_REQUIRES(mutex_);
  void require_room(std::size_t bytes, std::size_t asked) const TB_REQUIRES(mutex_);

  const Gpu& device_;
  const DeviceArenaOptions options_;
  const std::size_t granularity_;
  const std::shared_ptr<WriteMarks> marks_;
  mutable platform::Mutex mutex_;
  std::map<memory::SegmentId, Segment> segments_ TB_GUARDED_BY(mutex_);
  memory::LivingBlocks blocks_ TB_GUARDED_BY(mutex_);
  std::array<memory::FreeExtents, 2> free_ TB_GUARDED_BY(mutex_);  // by the maximum grant
  // A block that was returned before it was completely written.
  struct Rested {
    std::uint64_t write_mark = 0;
    memory::FreeExtents::Taken taken;
  };
  std::vector<Rested> rested_ TB_GUARDED_BY(mutex_);  // has capacity for all blocks
  std::vector<memory::SegmentId> retired_ TB_GUARDED_BY(mutex_);
  std::function<void()> idle_listener_ TB_GUARDED_BY(mutex_);
  bool reported_idle_ TB_GUARDED_BY(mutex_) = false;  // since the last retire_idle()
  std::uint32_t next_segment_ TB_GUARDED_BY(mutex_) = 0;
  std::size_t reserved_bytes_ TB_GUARDED_BY(mutex_) = 0;
};

}  // namespace tensorbus::device
