#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tensorbus/platform/mutex.hpp"
#include "tensorbus/tensor/mcap/chunk.hpp"

namespace tensorbus::recording {

// The chunks of a recording that were unpacked last. Thread-safe, also in a forked child. There the
// mutex may stay locked by a thread that the child lacks, so a caller that finds it locked does not
// use the cache.
class ChunkCache {
 public:
  // Returns the chunk whose record begins at `offset`. Throws as UnpackedChunk does.
  std::shared_ptr<const tensor::mcap::UnpackedChunk> get(std::span<const std::byte> file,
                                                         std::uint64_t offset);

 private:
  struct Kept {
    std::uint64_t offset = 0;
    std::shared_ptr<const tensor::mcap::UnpackedChunk> chunk{};
  };
  std::shared_ptr<const tensor::mcap::UnpackedChunk> find(std::uint64_t offset);
  void keep(std::uint64_t offset, std::shared_ptr<const tensor::mcap::UnpackedChunk> chunk);

  platform::Mutex mutex_;
  std::vector<Kept> kept_ TB_GUARDED_BY(mutex_);  // the most recently used is last
};

}  // namespace tensorbus::recording
