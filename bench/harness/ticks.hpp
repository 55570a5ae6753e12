#pragma once

#include <cstdint>
#include <ctime>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace bench {

inline std::uint64_t monotonic_ns() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}

// Time stamps that two processes on one machine may subtract from each other. On x86 the time stamp
// counter, which is cheaper than what we measure; it is one for all cores where the kernel takes
// its own clock from it (`clocksource` in the report says "tsc"). Elsewhere CLOCK_MONOTONIC.
#if defined(__x86_64__)
// Everything before it has been done.
inline std::uint64_t ticks_after() noexcept {
  _mm_lfence();
  return __rdtsc();
}
// Nothing after it has begun.
inline std::uint64_t ticks_before() noexcept {
  const std::uint64_t now = __rdtsc();
  _mm_lfence();
  return now;
}
inline void relax() noexcept { _mm_pause(); }

inline double measured_ns_per_tick() {
  const std::uint64_t begin_ns = monotonic_ns();
  const std::uint64_t begin = ticks_after();
  while (monotonic_ns() - begin_ns < 20'000'000) relax();
  return static_cast<double>(monotonic_ns() - begin_ns) /
         static_cast<double>(ticks_after() - begin);
}
#else
inline std::uint64_t ticks_after() noexcept { return monotonic_ns(); }
inline std::uint64_t ticks_before() noexcept { return monotonic_ns(); }
inline void relax() noexcept {
#if defined(__aarch64__)
  asm volatile("yield");
#endif
}
inline double measured_ns_per_tick() { return 1; }
#endif

// How long one tick is. The first call takes 20 ms.
inline double ns_per_tick() {
  static const double ratio = measured_ns_per_tick();
  return ratio;
}

inline void spin_for(std::uint64_t ns) noexcept {
  const std::uint64_t until = monotonic_ns() + ns;
  while (monotonic_ns() < until) relax();
}

}  // namespace bench
