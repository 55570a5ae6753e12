#pragma once

#include <poll.h>

#include <array>
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

// Shows whether the process of a queue is gone or has closed the queue. It joins the queue, whose
// items are never marked as done, so the join ends only then. Thread-safe.
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

// Returns the state of a request. kTimedOut: not finished. kClosed: also if the lifeline is cut
// (that of the process that must reply, if it is not the queue's own).
inline Outcome look(Queue::Pending& asked, Sample& sample, Lifeline* life) {
  Outcome found = asked.take(sample);
  if (found != Outcome::kTimedOut || life == nullptr || !life->cut()) return found;
  found = asked.take(sample);  // the reply may have come before the end
  return found == Outcome::kTimedOut ? Outcome::kClosed : found;
}

inline void poll_either(int one, Lifeline* life, std::chrono::nanoseconds timeout) {
  std::array<pollfd, 2> polled{{{one, POLLIN, 0}, {-1, POLLIN, 0}}};  // poll() ignores -1
  if (life != nullptr) polled[1].fd = life->descriptor();
  (void)::poll(polled.data(), polled.size(), milliseconds_of(timeout));
}

// Waits for a request; signals do not end the wait. kInterrupted: `give_up` returned true.
inline Outcome answer_to(Queue::Pending& asked, Sample& sample, const Deadline& deadline,
                         const GiveUp& give_up, Lifeline* life = nullptr) {
  while (true) {
    const Outcome found = look(asked, sample, life);
    if (found != Outcome::kTimedOut || deadline.passed()) return found;
    if (give_up && give_up()) return Outcome::kInterrupted;
    poll_either(asked.descriptor(), life,
                deadline.remaining(give_up ? std::chrono::nanoseconds(kGiveUpSlice)
                                           : std::chrono::nanoseconds::max()));
  }
}

// Without a GiveUp, a signal handler would end the call.
inline GiveUp over_signals(const GiveUp& give_up) {
  return give_up ? give_up : [] { return false; };
}

// A queue of our own for one reply at a time.
class ReplyQueue {
 public:
  explicit ReplyQueue(const Participant& participant)
      : queue_({}, participant), address_(queue_.address()) {}

  const std::string& address() const noexcept { return address_; }
  // Gets the reply, which must have been put before the lifeline is cut. Only the server knows this
  // queue.
  Outcome get(Sample& answer, std::chrono::nanoseconds timeout, const GiveUp& give_up,
              Lifeline& life) {
    Outcome outcome = queue_.get_while(answer, life.pending(), timeout, over_signals(give_up));
    if (outcome == Outcome::kClosed && has_come())
      outcome = closed_unless_done(queue_.get(answer, kMoment, over_signals(give_up)));
    answered_ += outcome == Outcome::kDone ? 1 : 0;
    return outcome;
  }

 private:
  // For the delivery of a reply that is here: its owner may have to send its memory.
  static constexpr std::chrono::seconds kMoment{1};

  static Outcome closed_unless_done(Outcome outcome) {
    return outcome == Outcome::kTimedOut ? Outcome::kClosed : outcome;
  }
  bool has_come() const { return queue_.stats().unfinished > answered_; }

  Queue queue_;
  std::string address_;
  std::uint64_t answered_ = 0;  // no reply is ever marked as done
};

}  // namespace internal
}  // namespace tensorbus::inline v0
