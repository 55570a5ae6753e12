#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

#include "tensorbus/platform/clock.hpp"

namespace tensorbus::recording {

// Decides when a recorder polls a topic, and determines when its samples were published.
//
// Waking a thread for each sample slows a publisher down. While samples arrive, a recorder polls
// the topic every kPeriod ("lazy"), and publishers wake it only if their queue is half full. A
// topic without samples for kIdle is not polled: its next sample wakes the recorder. A fast topic
// is not polled either, because its half-full queue would be full before a woken thread runs.
//
// A sample arrives after the last poll that found nothing, and before the poll that finds it. If
// its publishing time lies between both, this time is used. A topic whose publishing times do not,
// as in a replay, is not polled: its samples wake the recorder, and get the time at which they are
// found. For one thread.
class LookPace {
 public:
  using Clock = platform::Clock;
  static constexpr std::chrono::milliseconds kPeriod{5};
  static constexpr std::chrono::milliseconds kIdle{1000};
  static constexpr std::chrono::seconds kUntimed{10};
  static constexpr std::chrono::seconds kFast{1};
  static constexpr std::chrono::milliseconds kWindow{10};
  static constexpr int kManyInWindow = 50;
  static constexpr std::uint64_t kEarly = 20'000'000;  // ns: from the clock to the queue
  static constexpr int kMaxUntimed = 3;                // in a row

  // `now`: the wall-clock time at the beginning.
  explicit LookPace(std::uint64_t now) : empty_at_(now) {}

  bool lazy() const noexcept { return lazy_; }
  // Returns true if this call changed lazy().
  bool changes(Clock::time_point now) noexcept {
    if (came_ > 0) last_ = now;
    if (untimed_ >= kMaxUntimed) {
      untimed_ = 0;
      wakes_until_ = now + kUntimed;
    }
    if (is_fast(now)) wakes_until_ = std::max(wakes_until_, now + kFast);
    const bool lazy = (came_ > 0 || (lazy_ && now - last_ < kIdle)) && now >= wakes_until_;
    came_ = 0;
    return std::exchange(lazy_, lazy) != lazy;
  }

  // Called after a poll at the wall-clock time `now` found nothing.
  void found_nothing(std::uint64_t now) noexcept { empty_at_ = now; }
  // Returns the time to record for a sample with the publishing time `published` that was found
  // before `now`.
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
  Clock::time_point window_{};  // its beginning
  int untimed_ = 0;             // samples in a row with an impossible time
  std::uint64_t empty_at_;
  Clock::time_point last_{};         // last time that samples arrived
  Clock::time_point wakes_until_{};  // not lazy until then
};

}  // namespace tensorbus::recording
