#pragma once

#include <compare>
#include <cstdint>

namespace tensorbus::memory {

// What a borrower may do with memory. As a property of the memory: the most that any may.
enum class Grant : std::uint8_t {
  kRead,
  kWrite,  // as well; all who have the memory mapped see it
};

// Names a pool of an arena: segments that hold the blocks of this pool and no others. Whoever is
// handed one of them can read nothing of another pool. The memory of a GPU has only pools 0.
struct PoolId {
  Grant most;            // that a borrower may get
  std::uint32_t number;  // 0: for all that have no pool of their own

  constexpr PoolId(Grant grant, std::uint32_t which = 0) noexcept : most(grant), number(which) {}
  auto operator<=>(const PoolId&) const = default;
};

}  // namespace tensorbus::memory
