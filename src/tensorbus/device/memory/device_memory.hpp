#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "tensorbus/device/memory/device_arena.hpp"
#include "tensorbus/device/memory/device_exports.hpp"
#include "tensorbus/device/order/write_marks.hpp"
#include "tensorbus/platform/mutex.hpp"

namespace tensorbus::device {

// A participant's memory on all devices. Does not call the driver before device memory is
// requested. Thread-safe.
class DeviceMemory {
 public:
  explicit DeviceMemory(const DeviceArenaOptions& options, const Id& self = {})
      : options_(options), exports_(std::make_shared<DeviceExports>(self)) {}

  // Throws what DeviceArena::create() and allocate() throw.
  memory::BlockRef allocate(const Gpu& device, std::size_t bytes,
                            memory::Grant most = memory::Grant::kRead);
  // See Arena. The lookup by address finds only blocks of arenas.
  memory::BlockRef find(const void* address) const noexcept;
  memory::BlockRef find(memory::SegmentId segment, std::uint64_t offset,
                        std::uint64_t generation) const noexcept;

  // The segment must have blocks.
  const Gpu& device_of(memory::SegmentId segment) const;

  // The segment must belong to an arena and have blocks.
  memory::SharedSegment share_segment(memory::SegmentId id) const;

  // These three apply to all arenas: see DeviceArena. Set the listener before the first block.
  void on_idle(std::function<void()> listener) { idle_listener_ = std::move(listener); }
  void retire_idle(DeviceArena::Clock::time_point now);
  void close();
  // Returns the retired segments of arenas and of other allocators' memory.
  std::vector<memory::SegmentId> take_retired();

  DeviceExports& exports() noexcept { return *exports_; }
  WriteMarks& marks() noexcept { return *marks_; }
  // Returns the use of each arena by the device's ordinal.
  std::map<int, ArenaUse> stats() const;

 private:
  std::shared_ptr<DeviceArena> arena_of(const Gpu& device);
  std::shared_ptr<DeviceArena> arena_of(memory::SegmentId segment) const noexcept;
  std::vector<std::shared_ptr<DeviceArena>> arenas() const;

  const DeviceArenaOptions options_;
  const std::shared_ptr<DeviceExports> exports_;
  const std::shared_ptr<WriteMarks> marks_ = std::make_shared<WriteMarks>();
  std::function<void()> idle_listener_;
  mutable platform::Mutex mutex_;
  std::map<int, std::shared_ptr<DeviceArena>> arenas_ TB_GUARDED_BY(mutex_);  // by ordinal
};

}  // namespace tensorbus::device
