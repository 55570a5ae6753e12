#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "tensorbus/memory/cuda_arena.hpp"
#include "tensorbus/memory/cuda_exports.hpp"
#include "tensorbus/memory/write_marks.hpp"

namespace tensorbus::memory {

// A participant's memory on all devices. Nothing of CUDA is touched before some is asked for.
// Thread-safe.
class CudaMemory {
 public:
  // Segments of devices have numbers of their own, beside those of host memory and of files: first
  // those of the arenas, then those of other allocators' memory.
  static constexpr std::uint32_t kFirst = 0x40000000;
  static constexpr std::uint32_t kEnd = CudaExports::kEnd;
  static bool is_number(std::uint32_t segment) noexcept {
    return segment >= kFirst && segment < kEnd;
  }

  // `self`: the participant.
  explicit CudaMemory(const CudaArenaOptions& options, const Id& self = {})
      : options_(options), exports_(std::make_shared<CudaExports>(self)) {}

  // Throws what CudaArena::create() and allocate() throw.
  BlockRef allocate(const platform::CudaDevice& device, std::size_t bytes,
                    Grant most = Grant::kRead);
  // As Arena's. By address: of an arena.
  BlockRef find(const void* address) const noexcept;
  BlockRef find(std::uint32_t segment, std::uint64_t offset,
                std::uint64_t generation) const noexcept;

  // Of a segment that has blocks.
  const platform::CudaDevice& device_of(std::uint32_t segment) const;

  struct SharedSegment {
    platform::Fd fd;
    std::size_t bytes = 0;
    platform::cu::Uuid device;
  };
  // Of an arena's segment that has blocks.
  SharedSegment share_segment(std::uint32_t id) const;

  // Of the arenas, see CudaArena; said before the first block.
  void on_idle(std::function<void()> listener) { idle_listener_ = std::move(listener); }
  void retire_idle(CudaArena::Clock::time_point now);
  void close();
  // Of the arenas and of others' memory.
  std::vector<std::uint32_t> take_retired();

  CudaExports& exports() noexcept { return *exports_; }
  WriteMarks& marks() noexcept { return *marks_; }
  // By ordinal.
  std::map<int, CudaArenaStats> stats() const;

 private:
  std::shared_ptr<CudaArena> arena_of(const platform::CudaDevice& device);
  std::shared_ptr<CudaArena> arena_of(std::uint32_t segment) const noexcept;
  std::vector<std::shared_ptr<CudaArena>> arenas() const;

  const CudaArenaOptions options_;
  const std::shared_ptr<CudaExports> exports_;
  const std::shared_ptr<WriteMarks> marks_ = std::make_shared<WriteMarks>();
  std::function<void()> idle_listener_;
  mutable std::mutex mutex_;
  std::map<int, std::shared_ptr<CudaArena>> arenas_;  // by ordinal
};

}  // namespace tensorbus::memory
