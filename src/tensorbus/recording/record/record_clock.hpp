#pragma once

#include <chrono>
#include <cstdint>

#include "tensorbus/platform/clock.hpp"

namespace tensorbus::recording {

// The time of a recorder, in nanoseconds since 1970. It starts with the wall clock and continues
// with the steady clock, so a step of the wall clock changes no interval in the recording.
// Thread-safe.
class RecordClock {
 public:
  std::uint64_t now() const noexcept { return begun_ + steady_ns() - steady_; }
  // Returns the recorder's time at the wall-clock time `wall`. The result is wrong for times before
  // a step of the wall clock.
  std::uint64_t at_wall_time(std::uint64_t wall) const noexcept {
    const std::uint64_t wall_now = platform::wall_clock_ns();  // read first: compared with `wall`
    return wall + (now() - wall_now);                          // modulo 2^64
  }

 private:
  static std::uint64_t steady_ns() noexcept {
    const std::chrono::nanoseconds since = platform::Clock::now().time_since_epoch();
    return static_cast<std::uint64_t>(since.count());
  }

  const std::uint64_t begun_ = platform::wall_clock_ns();
  const std::uint64_t steady_ = steady_ns();
};

}  // namespace tensorbus::recording
