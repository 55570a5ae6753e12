#pragma once

#include <chrono>
#include <optional>
#include <tensorbus/values/outcome.hpp>
#include <utility>

#include "tensorbus/platform/clock.hpp"
#include "tensorbus/platform/waiting/futex.hpp"

namespace tensorbus::platform {

// Maximum time for which a thread parks before it checks its condition again.
inline constexpr std::chrono::milliseconds kParkSlice{100};
// Maximum park time for a caller with a `give_up`: the interval at which `give_up` is polled.
inline constexpr std::chrono::milliseconds kAskSlice{50};

// The condition on which a call stops waiting: its timeout has passed, or the caller gives up. A
// caller gives up when `give_up` returns true; without `give_up`, when a signal handler runs while
// the thread is parked. The time runs from the first wait. A call makes one stop condition and
// passes it to all its waits. Used by one thread.
class StopCondition {
 public:
  // Not explicit: a duration alone is a stop condition.
  template <typename Rep, typename Period>
  StopCondition(std::chrono::duration<Rep, Period> timeout, GiveUp give_up = {})
      : timeout_(timeout), give_up_(std::move(give_up)) {}
  // Only `give_up` or the timeout ends the wait; signals do not.
  static StopCondition ignoring_signals(std::chrono::nanoseconds timeout, GiveUp give_up = {}) {
    if (!give_up) give_up = [] { return false; };
    return {timeout, std::move(give_up)};
  }

  std::chrono::nanoseconds timeout() const noexcept { return timeout_; }
  const GiveUp& give_up() const noexcept { return give_up_; }

  // Returns the time left, at most `most`.
  std::chrono::nanoseconds remaining(std::chrono::nanoseconds most) const noexcept {
    return deadline().remaining(most);
  }
  bool given_up() const { return give_up_ && give_up_(); }
  bool given_up(FutexWait parked) const {
    return give_up_ ? give_up_() : parked == FutexWait::kInterrupted;
  }

  // Returns kDone as soon as holds() is true, else kTimedOut or kInterrupted. In between,
  // park(most) sleeps for at most `most` and returns a FutexWait.
  template <typename Holds, typename Park>
  Outcome wait(const Holds& holds, const Park& park) const {
    std::optional<FutexWait> parked;
    while (!holds()) {
      if (deadline().passed()) return Outcome::kTimedOut;
      if (parked && given_up(*parked)) return Outcome::kInterrupted;
      parked = park(remaining(give_up_ ? kAskSlice : kParkSlice));
    }
    return Outcome::kDone;
  }

 private:
  const Deadline& deadline() const noexcept {
    return deadline_ ? *deadline_ : deadline_.emplace(timeout_);
  }

  std::chrono::nanoseconds timeout_;
  GiveUp give_up_;
  mutable std::optional<Deadline> deadline_;
};

}  // namespace tensorbus::platform
