#pragma once

#include <algorithm>
#include <cstddef>

#include "tensorbus/memory/block.hpp"
#include "tensorbus/memory/grant.hpp"
#include "tensorbus/platform/files/memfd.hpp"

namespace tensorbus::memory {

inline std::size_t whole(std::size_t bytes, std::size_t step) {
  return (bytes + step - 1) / step * step;
}

// Blocks of a page or more, and blocks that borrowers may write to, consist of whole pages. So a
// reader's pages can become private (platform::CopyOnWrite) without pages of another block, freeing
// a block gives back all of its memory, and pinning a block pins no other block.
inline std::size_t block_step(std::size_t bytes, PoolId pool) {
  const bool has_pages = bytes >= platform::page_bytes() || pool.most == Grant::kWrite;
  return has_pages ? platform::page_bytes() : kBlockAlignment;
}

inline std::size_t block_bytes(std::size_t bytes, PoolId pool) {
  return whole(std::max<std::size_t>(bytes, 1), block_step(bytes, pool));
}

// A block that fills whole huge pages, except for at most an eighth of its size, begins at a huge
// page. `huge` is 0 if there are none.
inline std::size_t block_alignment(std::size_t bytes, PoolId pool, std::size_t huge) {
  const bool fills = huge != 0 && whole(bytes, huge) - bytes <= bytes / 8;
  return fills ? huge : block_step(bytes, pool);
}

}  // namespace tensorbus::memory
