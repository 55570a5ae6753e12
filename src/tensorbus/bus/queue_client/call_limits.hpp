#pragma once

#include <chrono>
#include <tensorbus/outcome.hpp>

#include "tensorbus/platform/error.hpp"
#include "tensorbus/platform/waiting/stop_condition.hpp"

// How long the calls of QueueClient wait.
namespace tensorbus::bus {

using namespace std::chrono_literals;
using platform::StopCondition;

// Limits for answers that the host owes at once: to a call without a time-out, to a request that
// does not wait, and to a put that was given up.
inline constexpr std::chrono::nanoseconds kGrace = 5s;
inline constexpr std::chrono::nanoseconds kOwedAtOnce = 1s;
inline constexpr std::chrono::nanoseconds kLastAnswer = 200ms;
inline constexpr std::chrono::nanoseconds kLeastForAnAnswer = 100ms;  // even if less time is left

// Returns Outcome::kClosed for Error(kClosed).
template <typename Wait>
Outcome closed_is_an_outcome(Wait wait) {
  try {
    return wait();
  } catch (const Error& error) {
    if (error.code() != Code::kClosed) throw;
    return Outcome::kClosed;
  }
}

// Returns true if the caller waits for room or for an item.
inline bool waits_for(const StopCondition& stop) { return stop.timeout().count() > 0; }

// Returns how long to wait for an answer. A call that does not wait for an item needs one, too.
inline StopCondition patience(const StopCondition& stop) {
  return waits_for(stop) ? stop : StopCondition(kOwedAtOnce, stop.give_up());
}

}  // namespace tensorbus::bus
