#pragma once

#include <cstdio>
#include <cstdlib>
#include <source_location>

namespace tensorbus {

// Ends the process if an invariant is broken: this is a bug in Tensorbus, and its records are
// wrong. Always enabled. Never used for input from a peer or a caller.
inline void check(bool holds,
                  std::source_location where = std::source_location::current()) noexcept {
  if (holds) [[likely]]
    return;
  std::fprintf(stderr, "tensorbus: internal invariant broken at %s:%u (%s)\n", where.file_name(),
               where.line(), where.function_name());
  std::abort();
}

}  // namespace tensorbus
