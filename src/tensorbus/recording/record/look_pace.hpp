#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

#include "tensorbus/platform/clock.hpp"

namespace tensorbus::bus {

// When a recorder looks for samples of a topic, and when they came.
//
// A publisher that wakes a thread for each sample takes longer for each. While samples come, a
// recorder looks by itself every kPeriod, and publishers wake it only when their queue is half
// full. A topic on which nothing comes for kIdle is not looked at, and its next sample wakes. So do
// those of a fast topic: a half full queue would be full before a thread that was woken runs.
//
// What was found came after the last look that found nothing, so the time of publishing is known to
// be right if it lies between. A topic whose samples say otherwise, as a replay, is not looked at:
// its samples wake, and their time is that of the look. For one thread.
class LookPace {
 public:
  using Clock = platform::Clock;
  static constexpr std::chrono::milliseconds kPeriod{5};
  static constexpr std::chrono::milliseconds kIdle{1000};
  static constexpr std::chrono::seconds kUntimed{10};
  static constexpr std::chrono::seconds kFast{1};
  static constexpr std::chrono::milliseconds kWindow{10};
  static constexpr int kManyInWindow = 50;
  static constexpr std::uint64_t kEarly = 1'000'000;  // ns: between reading the clock and the queue
  static constexpr int kMostUntimed = 3;              // one after the other

  // `now`: when it began, by the wall clock.
  explicit LookPace(std::uint64_t now) : empty_at_(now) {}

  bool lazy() const noexcept { return lazy_; }
  // Returns true if lazy() is another from now on.
  bool changes(Clock::time_point now) noexcept {
    if (came_ > 0) last_ = now;
    if (untimed_ >= kMostUntimed) {
      untimed_ = 0;
      wakes_until_ = now + kUntimed;
    }
    if (is_fast(now)) wakes_until_ = std::max(wakes_until_, now + kFast);
    const bool lazy = (came_ > 0 || (lazy_ && now - last_ < kIdle)) && now >= wakes_until_;
    came_ = 0;
    return std::exchange(lazy_, lazy) != lazy;
  }

  // A look at `now`, by the wall clock, found nothing.
  void found_nothing(std::uint64_t now) noexcept { empty_at_ = now; }
  // Returns when a sample came that says that it was published at `published`, and was found before
  // `now`.
  std::uint64_t came_at(std::uint64_t published, std::uint64_t now) noexcept {
    ++came_;
    if (published > now || published + kEarly < empty_at_) {
      ++untimed_;
      return now;
    }
    untimed_ = 0;
    return std::max(published, empty_at_);
  }

 private:
  bool is_fast(Clock::time_point now) noexcept {
    if (now - window_ >= kWindow) {
      window_ = now;
      in_window_ = 0;
    }
    in_window_ += came_;
    return in_window_ > kManyInWindow;
  }

  bool lazy_ = false;
  int came_ = 0;  // since changes()
  int in_window_ = 0;
  Clock::time_point window_{};  // when it began
  int untimed_ = 0;             // samples in a row whose time of publishing cannot be right
  std::uint64_t empty_at_;
  Clock::time_point last_{};         // that samples came
  Clock::time_point wakes_until_{};  // it is not lazy until then
};

}  // namespace tensorbus::bus
