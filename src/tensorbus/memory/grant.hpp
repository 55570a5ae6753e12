#pragma once

#include <compare>
#include <cstdint>

namespace tensorbus::memory {

// The access that a borrower has to memory. For a pool or a block: the most that any borrower gets.
enum class Grant : std::uint8_t {
  kRead,
  kWrite,  // and read; every process that maps the memory sees the writes
};

// Identifies a pool of an arena. A segment has blocks of one pool only, so a process that gets the
// segment cannot read blocks of other pools. For GPU memory, all pools have number 0.
struct PoolId {
  Grant most;            // the most that a borrower may get
  std::uint32_t number;  // 0: the pool of all publishers without a pool of their own

  constexpr PoolId(Grant grant, std::uint32_t which = 0) noexcept : most(grant), number(which) {}
  auto operator<=>(const PoolId&) const = default;
};

}  // namespace tensorbus::memory
