#pragma once

#include <poll.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tensorbus/internal/asking.hpp>
#include <tensorbus/internal/calls.hpp>
#include <tensorbus/internal/deadline.hpp>
#include <tensorbus/internal/polling.hpp>
#include <tensorbus/participant.hpp>
#include <tensorbus/queue.hpp>
#include <tensorbus/sample.hpp>
#include <tensorbus/values/error.hpp>
#include <tensorbus/values/message.hpp>
#include <tensorbus/values/outcome.hpp>
#include <utility>

// The process that offers a service, for a client that finds it, calls it and notices its end.
namespace tensorbus::inline v0 {
namespace internal {

// The queue for requests of one process that offers the service. Thread-safe.
class Server {
 public:
  explicit Server(Queue queue) : queue_(std::move(queue)) {}

  bool gone() {
    const std::lock_guard lock(mutex_);
    return gone_ || (life_ && life_->cut());
  }
  void found_gone() {
    const std::lock_guard lock(mutex_);
    gone_ = true;
  }

  // Returns false if the request was not accepted at once.
  bool put_now(const Message& request) { return queue_.put_now(request); }
  Queue::Pending start_put(const Message& request) { return queue_.start_put(request); }
  // Returns kClosed if the server is gone and has not accepted the request.
  Outcome put(const Message& request, const Deadline& deadline, const GiveUp& give_up) {
    Queue::Pending putting = start_put(request);
    Sample none;
    return wait_for(putting, none, deadline, give_up);
  }
  // Waits for the reply in `replies`. The server must have accepted the request.
  Outcome get(ReplyQueue& replies, Sample& answer, std::chrono::nanoseconds timeout,
              const GiveUp& give_up) {
    return replies.get(answer, timeout, give_up, lifeline());
  }

  // Called after the reply to a put: before it, the queue may be empty, and a join would end at
  // once.
  Lifeline& lifeline() {
    const std::lock_guard lock(mutex_);
    if (!life_) life_.emplace(queue_.start_join());
    return *life_;
  }

 private:
  Queue queue_;
  std::mutex mutex_;
  std::optional<Lifeline> life_;  // stays once it is set
  bool gone_ = false;
};

// Finds a server if none is known or the known one is gone. Thread-safe.
class Finder {
 public:
  Finder(const std::string& service, Participant participant)
      : queue_(queue_of_service(service)), participant_(std::move(participant)) {}

  // Returns a living server; null if none is found by the deadline, or if `give_up` returns true.
  std::shared_ptr<Server> found(const Deadline& deadline, const GiveUp& give_up) {
    while (true) {
      if (auto server = known()) return server;
      look_for_one(deadline, give_up);
      if (deadline.passed() || (give_up && give_up())) return known();
    }
  }
  // Returns the last server found; null if it is gone.
  std::shared_ptr<Server> known() {
    const std::lock_guard lock(mutex_);
    return server_ && !server_->gone() ? server_ : nullptr;
  }

 private:
  // Time until the name of a closed service is removed; no event reports the removal.
  static constexpr std::chrono::milliseconds kMoment{5};

  void look_for_one(const Deadline& deadline, const GiveUp& give_up) {
    try {
      const auto left = deadline.remaining(std::chrono::nanoseconds::max());
      meet(Queue::open(queue_, left, give_up, participant_));
    } catch (const Error& error) {
      if (error.code() == Code::kClosed)  // it has just closed
        (void)::poll(nullptr, 0, milliseconds_of(deadline.remaining(kMoment)));
      else if (error.code() != Code::kTimeout)
        throw;
    }
  }
  // Another thread may have found a server first.
  void meet(Queue queue) {
    const std::lock_guard lock(mutex_);
    if (!server_ || server_->gone()) server_ = std::make_shared<Server>(std::move(queue));
  }

  std::string queue_;
  Participant participant_;
  std::mutex mutex_;
  std::shared_ptr<Server> server_;  // calls in progress hold it too
};

}  // namespace internal
}  // namespace tensorbus::inline v0
