#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "tensorbus/platform/clock.hpp"

namespace tensorbus::recording {

// Converts between recorded time and the steady clock: recorded time runs `rate` times as fast. All
// due times are computed from the same start, so delays do not accumulate. For one thread, or
// guarded by a mutex.
class PlayTime {
 public:
  using TimePoint = platform::Clock::time_point;

  explicit PlayTime(double rate) : rate_(rate) {}

  double rate() const noexcept { return rate_; }
  // Starts: at `now`, the recorded time is `recorded` (ns since 1970).
  void start(std::uint64_t recorded, TimePoint now) noexcept {
    recorded_ = recorded;
    started_ = now;
  }
  void set_rate(double rate, TimePoint now) noexcept {
    start(at(now), now);
    rate_ = rate;
  }
  // Returns the time at which this recorded time is due; for times before the start, the start.
  TimePoint due(std::uint64_t recorded) const noexcept {
    if (recorded <= recorded_) return started_;
    const double wait = static_cast<double>(recorded - recorded_) / rate_;
    return started_ + std::chrono::nanoseconds(static_cast<std::int64_t>(std::min(wait, kMax)));
  }
  std::uint64_t at(TimePoint now) const noexcept {
    if (now <= started_) return recorded_;
    const auto passed = std::chrono::duration_cast<std::chrono::nanoseconds>(now - started_);
    const double played = std::min(static_cast<double>(passed.count()) * rate_, kMax);
    return recorded_ + std::min(static_cast<std::uint64_t>(played), UINT64_MAX - recorded_);
  }

 private:
  static constexpr double kMax = 1e18;  // ns, about thirty years: no file can cause an overflow

  double rate_;
  std::uint64_t recorded_ = 0;
  TimePoint started_{};
};

}  // namespace tensorbus::recording
