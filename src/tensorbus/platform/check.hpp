#pragma once

#include <cstdio>
#include <cstdlib>
#include <source_location>

namespace tensorbus {

// An invariant of ours. Always on; a violation is a bug in Tensorbus, so the process ends here
// instead of carrying on with wrong records. Never used on what a peer or a caller supplied.
inline void check(bool holds,
                  std::source_location where = std::source_location::current()) noexcept {
  if (holds) [[likely]]
    return;
  std::fprintf(stderr, "tensorbus: internal invariant broken at %s:%u (%s)\n", where.file_name(),
               where.line(), where.function_name());
  std::abort();
}

}  // namespace tensorbus
