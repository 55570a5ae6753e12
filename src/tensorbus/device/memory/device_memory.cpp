#include "tensorbus/device/memory/device_memory.hpp"

#include "tensorbus/platform/check.hpp"
#include "tensorbus/platform/error.hpp"

namespace tensorbus::device {

memory::BlockRef DeviceMemory::allocate(const Gpu& device, std::size_t bytes, memory::Grant most) {
  return arena_of(device)->allocate(bytes, most);
}

std::shared_ptr<DeviceArena> DeviceMemory::arena_of(const Gpu& device) {
  const int ordinal = device.ordinal();
  if (ordinal >= static_cast<int>(memory::SegmentId::kMaxDevices))
    throw Error(Code::kUnsupported, "more than 512 devices");
  const platform::MutexLock lock(mutex_);
  std::shared_ptr<DeviceArena>& arena = arenas_[ordinal];
  if (arena) return arena;
  auto made = DeviceArena::create(device, options_, marks_);
  made->on_idle(idle_listener_);
  return arena = std::move(made);
}

std::shared_ptr<DeviceArena> DeviceMemory::arena_of(memory::SegmentId segment) const noexcept {
  if (segment.kind() != memory::SegmentKind::kDevice) return nullptr;
  const platform::MutexLock lock(mutex_);
  const auto found = arenas_.find(segment.ordinal());
  return found == arenas_.end() ? nullptr : found->second;
}

memory::BlockRef DeviceMemory::find(const void* address) const noexcept {
  const platform::MutexLock lock(mutex_);
  for (const auto& [ordinal, arena] : arenas_)
    if (arena)
      if (memory::BlockRef block = arena->find(address)) return block;
  return {};
}

memory::BlockRef DeviceMemory::find(memory::SegmentId segment, std::uint64_t offset,
                                    std::uint64_t generation) const noexcept {
  if (segment.kind() == memory::SegmentKind::kForeign)
    return exports_->find(segment, offset, generation);
  const std::shared_ptr<DeviceArena> arena = arena_of(segment);
  return arena ? arena->find(segment, offset, generation) : memory::BlockRef();
}

const Gpu& DeviceMemory::device_of(memory::SegmentId segment) const {
  if (segment.kind() == memory::SegmentKind::kForeign)
    return exports_->memory_of(segment)->range().device();
  const std::shared_ptr<DeviceArena> arena = arena_of(segment);
  check(arena != nullptr);
  return arena->device();
}

memory::SharedSegment DeviceMemory::share_segment(memory::SegmentId id) const {
  const std::shared_ptr<DeviceArena> arena = arena_of(id);
  check(arena != nullptr);
  return arena->share_segment(id);
}

std::vector<std::shared_ptr<DeviceArena>> DeviceMemory::arenas() const {
  const platform::MutexLock lock(mutex_);
  std::vector<std::shared_ptr<DeviceArena>> all;
  for (const auto& [ordinal, arena] : arenas_)
    if (arena) all.push_back(arena);
  return all;
}

void DeviceMemory::retire_idle(DeviceArena::Clock::time_point now) {
  for (const auto& arena : arenas()) arena->retire_idle(now);
}

void DeviceMemory::close() {
  for (const auto& arena : arenas()) arena->close();
}

std::vector<memory::SegmentId> DeviceMemory::take_retired() {
  std::vector<memory::SegmentId> retired = exports_->take_retired();
  for (const auto& arena : arenas())
    for (const memory::SegmentId segment : arena->take_retired()) retired.push_back(segment);
  return retired;
}

std::map<int, ArenaUse> DeviceMemory::stats() const {
  const platform::MutexLock lock(mutex_);
  std::map<int, ArenaUse> stats;
  for (const auto& [ordinal, arena] : arenas_)
    if (arena) stats.emplace(ordinal, arena->stats());
  return stats;
}

}  // namespace tensorbus::device
