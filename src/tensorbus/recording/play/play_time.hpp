#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "tensorbus/platform/clock.hpp"

namespace tensorbus::bus {

// Which time of a recording it is now, and when another one comes: recorded time runs `rate` times
// as fast as the steady clock. Each due time is computed from one start, so lateness adds up to
// nothing. For one thread, or under a mutex.
class PlayTime {
 public:
  using TimePoint = platform::Clock::time_point;

  explicit PlayTime(double rate) : rate_(rate) {}

  double rate() const noexcept { return rate_; }
  // From `now` on: at `now` the recorded time is `recorded` (ns since 1970).
  void start(std::uint64_t recorded, TimePoint now) noexcept {
    recorded_ = recorded;
    started_ = now;
  }
  void set_rate(double rate, TimePoint now) noexcept {
    start(at(now), now);
    rate_ = rate;
  }
  // Returns when this recorded time comes; what lies before the start came then.
  TimePoint due(std::uint64_t recorded) const noexcept {
    if (recorded <= recorded_) return started_;
    const double wait = static_cast<double>(recorded - recorded_) / rate_;
    return started_ + std::chrono::nanoseconds(static_cast<std::int64_t>(std::min(wait, kMost)));
  }
  std::uint64_t at(TimePoint now) const noexcept {
    if (now <= started_) return recorded_;
    const auto passed = std::chrono::duration_cast<std::chrono::nanoseconds>(now - started_);
    const double played = std::min(static_cast<double>(passed.count()) * rate_, kMost);
    return recorded_ + std::min(static_cast<std::uint64_t>(played), UINT64_MAX - recorded_);
  }

 private:
  static constexpr double kMost = 1e18;  // ns, some thirty years: no file may ask for an overflow

  double rate_;
  std::uint64_t recorded_ = 0;
  TimePoint started_{};
};

}  // namespace tensorbus::bus
