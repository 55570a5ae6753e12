#pragma once

#include <string>

#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#else  // the program runs all the same; nobody counts
#define CALLGRIND_ZERO_STATS
#define CALLGRIND_TOGGLE_COLLECT
#define CALLGRIND_DUMP_STATS_AT(name) static_cast<void>(name)
#endif

namespace bench {

inline constexpr int kBatch = 64;
inline constexpr int kBatches = 8;

// What callgrind collects of this thread while it lives, started with --collect-atstart=no.
class Collecting {
 public:
  Collecting() { CALLGRIND_TOGGLE_COLLECT; }
  ~Collecting() { CALLGRIND_TOGGLE_COLLECT; }
  Collecting(const Collecting&) = delete;
  Collecting& operator=(const Collecting&) = delete;
};

// Has `calls()` run in batches, between a `before()` and an `after()` that nobody counts, and its
// instructions written down under this name: all that kBatches times kBatch calls take. The first
// batch warms up.
template <typename Before, typename Calls, typename After>
void count(const std::string& name, Before before, Calls calls, After after) {
  for (int batch = 0; batch <= kBatches; ++batch) {
    if (batch == 1) CALLGRIND_ZERO_STATS;
    before();
    {
      const Collecting collecting;
      calls();
    }
    after();
  }
  CALLGRIND_DUMP_STATS_AT(name.c_str());
}

}  // namespace bench
