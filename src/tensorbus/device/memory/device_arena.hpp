#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <tensorbus/stats.hpp>
#include <vector>

#include "tensorbus/device/gpu_memory.hpp"
#include "tensorbus/device/order/write_marks.hpp"
#include "tensorbus/memory/block.hpp"
#include "tensorbus/memory/free_extents.hpp"
#include "tensorbus/memory/living_blocks.hpp"
#include "tensorbus/memory/shared_segment.hpp"

namespace tensorbus::memory {

struct DeviceArenaOptions {
  std::size_t segment_bytes = std::size_t{64} << 20;  // a larger tensor gets a larger segment
  std::size_t budget_bytes = 0;                       // 0: half of the device's memory
};

// A participant's memory on one device: allocations that others can be given a descriptor of,
// carved into blocks. The records are as private as those of host memory, and as there are two
// pools (Arena): whether a borrower maps what it is given to be written is up to itself, so the
// pools only tell who was told that it may. A block that comes back is used again when the stream
// that wrote it has passed; who drops a loan that was never published has no work left under way on
// it. A segment of which nobody has had anything for a while goes back to the device, but for one.
//
// Invariants, under `mutex_`:
// 1. Every byte of every segment is in exactly one block, in one that rests, or in one free extent.
// 2. reserved_bytes, of both pools, never exceeds the budget.
// Thread-safe. Blocks keep their arena alive.
class DeviceArena : public BlockHome, public std::enable_shared_from_this<DeviceArena> {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kIdle{5};
  static std::shared_ptr<DeviceArena> create(const platform::Gpu& device,
                                             const DeviceArenaOptions& options,
                                             std::shared_ptr<WriteMarks> marks);

  // What streams still write stays until they have passed.
  ~DeviceArena() override;

  const platform::Gpu& device() const noexcept { return device_; }

  // At least `bytes`, aligned to kBlockAlignment, of the pool of which `most` may be granted.
  // Throws Error(kOutOfMemory) that names the limit, Error(kUnsupported) if the device cannot share
  // memory.
  BlockRef allocate(std::size_t bytes, Grant most = Grant::kRead);
  // As Arena's.
  BlockRef find(const void* address) const noexcept;
  BlockRef find(SegmentId segment, std::uint64_t offset, std::uint64_t generation) const noexcept;

  SharedSegment share_segment(SegmentId id) const;

  // Gives back segments that have been idle until `now`. Borrowers are to be told, too.
  void retire_idle(Clock::time_point now);
  std::vector<SegmentId> take_retired();
  // A segment is idle now: retire_idle() has something to do in kIdle. It takes no lock that
  // anybody holds while calling us, and does not throw. Said before the first block.
  void on_idle(std::function<void()> listener);
  // The participant is gone, and nobody listens; blocks may live on.
  void close() { on_idle({}); }

  // But for what is of the whole process.
  ArenaUse stats() const;

 private:
  struct Segment {
    platform::GpuAllocation allocation;
    std::shared_ptr<const platform::GpuMapping> mapping;
    Grant most_granted = Grant::kRead;
    std::optional<Clock::time_point> idle_since{};
  };

  DeviceArena(const platform::Gpu& device, const DeviceArenaOptions& options,
              std::shared_ptr<WriteMarks> marks);
  void wake_rested() noexcept;
  bool free(Block& block) noexcept override;
  void note_idle(SegmentId segment) noexcept;
  void tell_idle() noexcept;
  SegmentId free_number();
  FreeExtents& free_of(Grant most) noexcept { return free_[static_cast<std::size_t>(most)]; }
  FreeExtents& free_in(SegmentId segment) noexcept {
    return free_of(segments_.at(segment).most_granted);
  }
  void grow_for(std::size_t bytes, Grant most);
  void require_room(std::size_t bytes, std::size_t asked) const;

  const platform::Gpu& device_;
  const DeviceArenaOptions options_;
  const std::size_t granularity_;
  const std::shared_ptr<WriteMarks> marks_;
  mutable std::mutex mutex_;
  std::map<SegmentId, Segment> segments_;
  LivingBlocks blocks_;
  std::array<FreeExtents, 2> free_;  // by the most that may be granted
  // Came back before they were whole.
  struct Rested {
    std::uint64_t write_mark = 0;
    FreeExtents::Taken taken;
  };
  std::vector<Rested> rested_;  // has room for all blocks
  std::vector<SegmentId> retired_;
  std::function<void()> idle_listener_;
  bool told_idle_ = false;  // since retire_idle() was called last
  std::uint32_t next_segment_ = 0;
  std::size_t reserved_bytes_ = 0;
};

}  // namespace tensorbus::memory
