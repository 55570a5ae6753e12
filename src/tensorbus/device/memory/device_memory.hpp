#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "tensorbus/device/memory/device_arena.hpp"
#include "tensorbus/device/memory/device_exports.hpp"
#include "tensorbus/device/order/write_marks.hpp"

namespace tensorbus::memory {

// A participant's memory on all devices. No driver is touched before some is asked for.
// Thread-safe.
class DeviceMemory {
 public:
  // `self`: the participant.
  explicit DeviceMemory(const DeviceArenaOptions& options, const Id& self = {})
      : options_(options), exports_(std::make_shared<DeviceExports>(self)) {}

  // Throws what DeviceArena::create() and allocate() throw.
  BlockRef allocate(const platform::Gpu& device, std::size_t bytes, Grant most = Grant::kRead);
  // As Arena's. By address: of an arena.
  BlockRef find(const void* address) const noexcept;
  BlockRef find(SegmentId segment, std::uint64_t offset, std::uint64_t generation) const noexcept;

  // Of a segment that has blocks.
  const platform::Gpu& device_of(SegmentId segment) const;

  // Of an arena's segment that has blocks.
  SharedSegment share_segment(SegmentId id) const;

  // Of the arenas, see DeviceArena; said before the first block.
  void on_idle(std::function<void()> listener) { idle_listener_ = std::move(listener); }
  void retire_idle(DeviceArena::Clock::time_point now);
  void close();
  // Of the arenas and of others' memory.
  std::vector<SegmentId> take_retired();

  DeviceExports& exports() noexcept { return *exports_; }
  WriteMarks& marks() noexcept { return *marks_; }
  // By ordinal.
  std::map<int, ArenaUse> stats() const;

 private:
  std::shared_ptr<DeviceArena> arena_of(const platform::Gpu& device);
  std::shared_ptr<DeviceArena> arena_of(SegmentId segment) const noexcept;
  std::vector<std::shared_ptr<DeviceArena>> arenas() const;

  const DeviceArenaOptions options_;
  const std::shared_ptr<DeviceExports> exports_;
  const std::shared_ptr<WriteMarks> marks_ = std::make_shared<WriteMarks>();
  std::function<void()> idle_listener_;
  mutable std::mutex mutex_;
  std::map<int, std::shared_ptr<DeviceArena>> arenas_;  // by ordinal
};

}  // namespace tensorbus::memory
