#pragma once

#include <cstdint>

namespace tensorbus::memory {

// What a borrower may do with memory. As a property of the memory: the most that any may.
enum class Grant : std::uint8_t {
  kRead,
  kWrite,  // as well; all who have the memory mapped see it
};

}  // namespace tensorbus::memory
