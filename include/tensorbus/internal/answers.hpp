#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <exception>
#include <map>
#include <optional>
#include <string>
#include <tensorbus/internal/asking.hpp>
#include <tensorbus/internal/deadline.hpp>
#include <tensorbus/participant.hpp>
#include <tensorbus/queue.hpp>
#include <tensorbus/sample.hpp>
#include <tensorbus/values/error.hpp>
#include <tensorbus/values/message.hpp>
#include <tensorbus/values/outcome.hpp>
#include <utility>

namespace tensorbus::inline v0 {
namespace internal {

// Sends replies to clients, which may be stopped or dead. Sending does not wait for clients; the
// destructor waits up to a second. For one thread at a time.
class Answers {
 public:
  explicit Answers(Participant participant) : participant_(std::move(participant)) {}
  Answers(const Answers&) = delete;
  Answers& operator=(const Answers&) = delete;
  ~Answers() { finish(); }

  // Throws Error(kInvalidArgument) if `address` is invalid, and what Queue::put() throws.
  void give(const std::string& address, const Message& answer) {
    Queue& queue = at(address);
    const bool put = queue.put_now(answer);
    if (put && under_way_.empty()) return;
    std::optional<Queue::Pending> giving;
    if (!put) giving.emplace(queue.start_put(answer));
    std::erase_if(under_way_, [](Queue::Pending& each) { return has_ended(each); });
    if (giving) under_way_.push_back(*std::move(giving));
    if (under_way_.size() > kMax) under_way_.pop_front();
  }

 private:
  Queue& at(const std::string& address) {
    const auto found = queues_.find(address);
    if (found != queues_.end()) return found->second;
    Queue queue = Queue::at(address, {}, participant_);
    if (queues_.size() >= kMax) queues_.clear();
    return queues_.emplace(address, std::move(queue)).first->second;
  }

  // Limit for unfinished replies, which have two descriptors each, and for queues. A reply that is
  // given up still arrives if it was sent to the client.
  static constexpr std::size_t kMax = 128;
  static constexpr std::chrono::seconds kAtTheEnd{1};

  // Returns true if sending has succeeded or failed. It is no error if the client is gone or
  // refuses the reply.
  static bool has_ended(Queue::Pending& giving) noexcept {
    try {
      Sample none;
      return giving.take(none) != Outcome::kTimedOut;
    } catch (const std::exception&) {
      return true;
    }
  }
  void finish() noexcept {
    const Deadline deadline(kAtTheEnd);
    for (Queue::Pending& each : under_way_)
      while (!has_ended(each) && !deadline.passed())
        wait_until_readable(each.descriptor(), deadline.remaining(kAtTheEnd));
  }

  Participant participant_;
  std::map<std::string, Queue> queues_;   // of recent clients
  std::deque<Queue::Pending> under_way_;  // unfinished, the oldest first
};

}  // namespace internal
}  // namespace tensorbus::inline v0
