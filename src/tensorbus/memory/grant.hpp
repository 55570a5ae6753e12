#pragma once

#include <compare>
#include <cstdint>

namespace tensorbus::memory {

// What a borrower may do with memory. For memory itself: the most that any borrower may do.
enum class Grant : std::uint8_t {
  kRead,
  kWrite,  // and read; every process that maps the memory sees the writes
};

// Names a pool of an arena: segments that hold blocks of this pool only. A process that gets a
// segment can read nothing of another pool. For GPU memory, all pools have number 0.
struct PoolId {
  Grant most;            // the most that a borrower may get
  std::uint32_t number;  // 0: the pool of all publishers without a pool of their own

  constexpr PoolId(Grant grant, std::uint32_t which = 0) noexcept : most(grant), number(which) {}
  auto operator<=>(const PoolId&) const = default;
};

}  // namespace tensorbus::memory
