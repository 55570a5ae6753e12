#pragma once

#include <chrono>
#include <cstdint>

#include "tensorbus/platform/clock.hpp"

namespace tensorbus::recording {

// The difference between the recorder's clock and the wall clock. It is constant until the wall
// clock steps, because both clocks are slewed alike. For one thread.
class WallOffset {
 public:
  // Returns the difference in nanoseconds. `least` and `most` are its bounds, measured now: the
  // recorder's clock was read before and after the wall clock. A thread that is interrupted in
  // between gets wide bounds, and the same result as before.
  std::int64_t within(std::int64_t least, std::int64_t most) noexcept {
    const bool stepped = offset_ < least - kTolerance || offset_ > most + kTolerance;
    if (stepped) offset_ = least + (most - least) / 2;
    return offset_;
  }

 private:
  static constexpr std::int64_t kTolerance = 1000;  // ns

  std::int64_t offset_ = 0;
};

// The time of a recorder, in nanoseconds since 1970. It starts with the wall clock and continues
// with the steady clock, so a step of the wall clock changes no interval in the recording.
class RecordClock {
 public:
  // May be called in any thread.
  std::uint64_t now() const noexcept { return begun_ + steady_ns() - steady_; }
  // Returns the recorder's time at the wall-clock time `wall`. The result is wrong for times before
  // a step of the wall clock. For one thread.
  std::uint64_t at_wall_time(std::uint64_t wall) noexcept {
    const std::uint64_t before = now();
    const std::uint64_t wall_now = platform::wall_clock_ns();
    const std::int64_t offset = offset_.within(static_cast<std::int64_t>(before - wall_now),
                                               static_cast<std::int64_t>(now() - wall_now));
    return wall + static_cast<std::uint64_t>(offset);  // modulo 2^64
  }

 private:
  static std::uint64_t steady_ns() noexcept {
    const std::chrono::nanoseconds since = platform::Clock::now().time_since_epoch();
    return static_cast<std::uint64_t>(since.count());
  }

  const std::uint64_t begun_ = platform::wall_clock_ns();
  const std::uint64_t steady_ = steady_ns();
  WallOffset offset_;
};

}  // namespace tensorbus::recording
