#pragma once

#include <chrono>
#include <tensorbus/values/outcome.hpp>

#include "tensorbus/platform/error.hpp"
#include "tensorbus/platform/waiting/stop_condition.hpp"

// Time limits of the calls of QueueClient.
namespace tensorbus::bus {

using namespace std::chrono_literals;
using platform::StopCondition;

// Limits for replies that the queue's server sends at once: to a call without a time-out, to a
// request that does not wait, and to a put that was cancelled.
inline constexpr std::chrono::nanoseconds kGrace = 5s;
inline constexpr std::chrono::nanoseconds kImmediateReply = 1s;
inline constexpr std::chrono::nanoseconds kLastAnswer = 200ms;
inline constexpr std::chrono::nanoseconds kMinForAnAnswer = 100ms;  // even if less time is left

// Calls `wait`, and returns Outcome::kClosed for its Error(kClosed).
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

// Returns the condition that ends the wait for a reply. A call that does not wait for an item or
// for room needs a reply, too.
inline StopCondition patience(const StopCondition& stop) {
  return waits_for(stop) ? stop : StopCondition(kImmediateReply, stop.give_up());
}

}  // namespace tensorbus::bus
