#pragma once

#include <poll.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <tensorbus/internal/deadline.hpp>
#include <tensorbus/internal/polling.hpp>
#include <tensorbus/outcome.hpp>
#include <tensorbus/participant.hpp>
#include <tensorbus/queue.hpp>
#include <tensorbus/sample.hpp>
#include <utility>

// Waiting for what another process is asked, and for that process's end at the same time.
namespace tensorbus::inline v0 {
namespace internal {

// Tells when the process that has a queue is gone, or has closed it. It waits for the end of all of
// the queue's items, which nobody is ever done with, and so hears nothing but that. Thread-safe.
class Lifeline {
 public:
  explicit Lifeline(Queue::Pending joining) : joining_(std::move(joining)) {}

  // Readable when it is cut.
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

// When a call that waits asks GiveUp again.
inline constexpr std::chrono::milliseconds kGiveUpSlice(50);

// What became of a request: kClosed also when the lifeline (of the process that is to do something
// about it, if that is not the queue's own) is cut; kTimedOut if it is under way still.
inline Outcome look(Queue::Pending& asked, Sample& sample, Lifeline* life) {
  Outcome found = asked.take(sample);
  if (found != Outcome::kTimedOut || life == nullptr || !life->cut()) return found;
  found = asked.take(sample);  // it may have answered first
  return found == Outcome::kTimedOut ? Outcome::kClosed : found;
}

inline void poll_either(int one, Lifeline* life, std::chrono::nanoseconds timeout) {
  std::array<pollfd, 2> polled{{{one, POLLIN, 0}, {-1, POLLIN, 0}}};  // poll() passes over -1
  if (life != nullptr) polled[1].fd = life->descriptor();
  (void)::poll(polled.data(), polled.size(), milliseconds_of(timeout));
}

// Waits for a request that is under way: kDone, kTimedOut, kInterrupted (`give_up` said so) or
// kClosed. Goes on after signals.
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

// A queue of ours for one answer at a time.
class ReplyQueue {
 public:
  explicit ReplyQueue(const Participant& participant) : queue_({}, participant) {}

  std::string address() const { return queue_.address(); }
  // What is put into it while the lifeline holds, or was put before that was cut. Nobody else gets
  // here.
  Outcome get(Sample& answer, const Deadline& deadline, const GiveUp& give_up, Lifeline& life) {
    Queue::Pending getting = queue_.start_get();
    Outcome outcome = answer_to(getting, answer, deadline, give_up, &life);
    if (outcome == Outcome::kClosed && has_come())
      outcome = closed_unless_done(answer_to(getting, answer, Deadline(kMoment), give_up));
    answered_ += outcome == Outcome::kDone ? 1 : 0;
    return outcome;
  }

 private:
  // For an answer that is here to be handed to us: its owner may be asked for its memory.
  static constexpr std::chrono::seconds kMoment{1};

  static Outcome closed_unless_done(Outcome outcome) {
    return outcome == Outcome::kTimedOut ? Outcome::kClosed : outcome;
  }
  bool has_come() const { return queue_.stats().unfinished > answered_; }

  Queue queue_;
  std::uint64_t answered_ = 0;  // none of which is ever done
};

}  // namespace internal
}  // namespace tensorbus::inline v0
