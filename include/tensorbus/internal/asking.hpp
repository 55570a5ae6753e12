#pragma once

#include <poll.h>

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <tensorbus/internal/deadline.hpp>
#include <tensorbus/internal/polling.hpp>
#include <tensorbus/participant.hpp>
#include <tensorbus/queue.hpp>
#include <tensorbus/sample.hpp>
#include <tensorbus/values/outcome.hpp>
#include <utility>

// Waits for the reply of another process, and for the end of that process.
namespace tensorbus::inline v0 {
namespace internal {

// Finds out whether the process of a queue is gone or has closed the queue. It joins the queue.
// Items of the queue are never marked as done, so the join ends only in these cases. Thread-safe.
class Lifeline {
 public:
  explicit Lifeline(Queue::Pending joining) : joining_(std::move(joining)) {}

  // Finishes when cut() returns true.
  const Queue::Pending& pending() const noexcept { return joining_; }
  int descriptor() const noexcept { return joining_.descriptor(); }
  bool cut() {
    const std::lock_guard lock(mutex_);
    Sample none;
    cut_ = cut_ || joining_.take(none) != Outcome::kTimedOut;
    return cut_;
  }

 private:
  std::mutex mutex_;
  Queue::Pending joining_;
  bool cut_ = false;
};

// The longest time between two calls of GiveUp by a waiting call.
inline constexpr std::chrono::milliseconds kGiveUpSlice(50);

inline void wait_until_readable(int descriptor, std::chrono::nanoseconds timeout) {
  pollfd polled{descriptor, POLLIN, 0};
  (void)::poll(&polled, 1, milliseconds_of(timeout));
}

// Waits for a request; signals do not end the wait. kInterrupted: `give_up` returned true.
inline Outcome wait_for(Queue::Pending& request, Sample& sample, const Deadline& deadline,
                        const GiveUp& give_up) {
  while (true) {
    const Outcome found = request.take(sample);
    if (found != Outcome::kTimedOut || deadline.passed()) return found;
    if (give_up && give_up()) return Outcome::kInterrupted;
    wait_until_readable(request.descriptor(),
                        deadline.remaining(give_up ? std::chrono::nanoseconds(kGiveUpSlice)
                                                   : std::chrono::nanoseconds::max()));
  }
}

// Returns a GiveUp in any case, because without one a signal handler would end the call.
inline GiveUp over_signals(const GiveUp& give_up) {
  return give_up ? give_up : [] { return false; };
}

// A queue of this process for one reply at a time.
class ReplyQueue {
 public:
  // Time for the delivery of a reply that is in the queue: its owner may have to send its memory.
  static constexpr std::chrono::seconds kMoment{1};

  explicit ReplyQueue(const Participant& participant)
      : queue_({}, participant), address_(queue_.address()) {}

  const std::string& address() const noexcept { return address_; }
  // Starts to get the reply. The caller calls count_answer() when it has it.
  Queue::Pending start_get() { return queue_.start_get(); }
  void count_answer() noexcept { ++answered_; }
  // Returns true if a reply was put that no call has got.
  bool has_come() const { return queue_.stats().unfinished > answered_; }
  // Gets the reply, which must have been put before the lifeline is cut. Only the server has the
  // address of this queue.
  Outcome get(Sample& answer, std::chrono::nanoseconds timeout, const GiveUp& give_up,
              Lifeline& life) {
    Outcome outcome = queue_.get_while(answer, life.pending(), timeout, over_signals(give_up));
    if (outcome == Outcome::kClosed && has_come())
      outcome = closed_unless_done(queue_.get(answer, kMoment, over_signals(give_up)));
    answered_ += outcome == Outcome::kDone ? 1 : 0;
    return outcome;
  }

 private:
  static Outcome closed_unless_done(Outcome outcome) {
    return outcome == Outcome::kTimedOut ? Outcome::kClosed : outcome;
  }

  Queue queue_;
  std::string address_;
  std::uint64_t answered_ = 0;  // no reply is ever marked as done
};

}  // namespace internal
}  // namespace tensorbus::inline v0
