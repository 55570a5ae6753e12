#include "tensorbus/memory/cuda_memory.hpp"

#include "tensorbus/platform/check.hpp"
#include "tensorbus/platform/error.hpp"

namespace tensorbus::memory {

BlockRef CudaMemory::allocate(const platform::CudaDevice& device, std::size_t bytes, Grant most) {
  return arena_of(device)->allocate(bytes, most);
}

std::shared_ptr<CudaArena> CudaMemory::arena_of(const platform::CudaDevice& device) {
  const int ordinal = device.ordinal();
  if (ordinal >= static_cast<int>((CudaExports::kFirst - kFirst) / CudaArena::kMostSegments))
    throw Error(Code::kUnsupported, "more than 512 devices");
  const std::lock_guard lock(mutex_);
  std::shared_ptr<CudaArena>& arena = arenas_[ordinal];
  if (arena) return arena;
  auto made = CudaArena::create(
      device, options_, kFirst + static_cast<std::uint32_t>(ordinal) * CudaArena::kMostSegments,
      marks_);
  made->on_idle(idle_listener_);
  return arena = std::move(made);
}

std::shared_ptr<CudaArena> CudaMemory::arena_of(std::uint32_t segment) const noexcept {
  if (!is_number(segment)) return nullptr;
  const std::lock_guard lock(mutex_);
  const auto found = arenas_.find(static_cast<int>((segment - kFirst) / CudaArena::kMostSegments));
  return found == arenas_.end() ? nullptr : found->second;
}

BlockRef CudaMemory::find(const void* address) const noexcept {
  const std::lock_guard lock(mutex_);
  for (const auto& [ordinal, arena] : arenas_)
    if (arena)
      if (BlockRef block = arena->find(address)) return block;
  return {};
}

BlockRef CudaMemory::find(std::uint32_t segment, std::uint64_t offset,
                          std::uint64_t generation) const noexcept {
  if (CudaExports::is_number(segment)) return exports_->find(segment, offset, generation);
  const std::shared_ptr<CudaArena> arena = arena_of(segment);
  return arena ? arena->find(segment, offset, generation) : BlockRef();
}

const platform::CudaDevice& CudaMemory::device_of(std::uint32_t segment) const {
  if (CudaExports::is_number(segment)) return exports_->memory_of(segment)->range().device();
  const std::shared_ptr<CudaArena> arena = arena_of(segment);
  check(arena != nullptr);
  return arena->device();
}

CudaMemory::SharedSegment CudaMemory::share_segment(std::uint32_t id) const {
  const std::shared_ptr<CudaArena> arena = arena_of(id);
  check(arena != nullptr);
  CudaArena::SharedSegment shared = arena->share_segment(id);
  return {std::move(shared.fd), shared.bytes, arena->device().uuid()};
}

std::vector<std::shared_ptr<CudaArena>> CudaMemory::arenas() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<CudaArena>> all;
  for (const auto& [ordinal, arena] : arenas_)
    if (arena) all.push_back(arena);
  return all;
}

void CudaMemory::retire_idle(CudaArena::Clock::time_point now) {
  for (const auto& arena : arenas()) arena->retire_idle(now);
}

void CudaMemory::close() {
  for (const auto& arena : arenas()) arena->close();
}

std::vector<std::uint32_t> CudaMemory::take_retired() {
  std::vector<std::uint32_t> retired = exports_->take_retired();
  for (const auto& arena : arenas())
    for (const std::uint32_t segment : arena->take_retired()) retired.push_back(segment);
  return retired;
}

std::map<int, CudaArenaStats> CudaMemory::stats() const {
  const std::lock_guard lock(mutex_);
  std::map<int, CudaArenaStats> stats;
  for (const auto& [ordinal, arena] : arenas_)
    if (arena) stats.emplace(ordinal, arena->stats());
  return stats;
}

}  // namespace tensorbus::memory
