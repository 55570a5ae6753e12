#pragma once

#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <span>
#include <tensorbus/values/options.hpp>
#include <tensorbus/values/stats.hpp>
#include <vector>

#include "tensorbus/bus/event_loop/completion.hpp"
#include "tensorbus/bus/publish/sample_builder.hpp"
#include "tensorbus/bus/queue_client/queue_get.hpp"
#include "tensorbus/bus/queue_client/queue_rings.hpp"
#include "tensorbus/bus/session/participant_context.hpp"
#include "tensorbus/bus/session/queue_requests.hpp"
#include "tensorbus/link/wire/queue_messages.hpp"

namespace tensorbus::bus {

// Makes a queue that this participant serves.
link::QueueName make_queue(ParticipantContext& participant, const QueueOptions& options);

// A process's client of a queue: sends requests to the queue's server, which may be this
// participant, and waits for the replies. It refers to a ParticipantContext and is made for each
// call. Thread-safe.
class QueueClient {
 public:
  // `rings`: for puts and gets without a request; null: each put and get sends a request.
  // `pinning`: pins items; null: they are not pinned.
  QueueClient(ParticipantContext& participant, const QueueAddress& address,
              std::shared_ptr<const QueueRings> rings = nullptr,
              std::shared_ptr<Pinning> pinning = nullptr)
      : participant_(participant),
        address_(address),
        rings_(std::move(rings)),
        pinning_(std::move(pinning)) {}

  using ReplyCompletion = std::shared_ptr<Completion<link::Reply>>;
  struct Request {
    ReplyCompletion awaited;
    std::function<void()> cancel;  // called if the caller gives up
  };
  // `patience`: see PatientRequest.
  Request start_put(const SampleBuilder& item, bool waits,
                    std::chrono::nanoseconds patience = PatientRequest::kPatience) const;
  QueueGet start_get(Access access, QueueGet::Mode mode) const;
  Request start_call(link::QueueVerb verb, std::uint64_t number = 0,
                     std::chrono::nanoseconds patience = PatientRequest::kPatience) const;
  // Returns a completed reply, for a put that was done at once.
  static ReplyCompletion answered();
  // Returns the outcome in the reply to a put or a call.
  static Outcome outcome_of(const link::Reply& reply);

  // Waits for a reply that the server sends at once.
  link::Reply call(link::QueueVerb verb, const GiveUp& give_up, std::uint64_t number = 0) const;

  // See queue.hpp.
  Outcome put(const SampleBuilder& item, const platform::StopCondition& stop) const;
  // `life`: once it is done, the get ends with kClosed.
  Outcome get(Sample& item, Access access, const platform::StopCondition& stop,
              CompletionState* life = nullptr) const;
  // `on_put` is called for each item that was put, in order; it may remove the first element of
  // `items`.
  Outcome put_many(std::list<SampleBuilder>& items, const platform::StopCondition& stop,
                   const std::function<void()>& on_put) const;
  Outcome get_many(std::vector<Sample>& items, std::size_t most, Access access,
                   const platform::StopCondition& stop) const;
  link::QueueSettings open(const platform::StopCondition& stop) const;
  link::QueueState state(const GiveUp& give_up) const;
  void task_done(const GiveUp& give_up) const;
  Outcome join(const platform::StopCondition& stop) const;
  link::QueueRest shut_down(bool immediate, const GiveUp& give_up) const;
  Outcome drain(const platform::StopCondition& stop) const;
  // Closes the queue, without waiting for items or other clients.
  void close(const GiveUp& give_up) const;

 private:
  std::deque<Request> start_puts(const std::list<SampleBuilder>& items,
                                 const platform::StopCondition& stop) const;
  static Outcome last_outcome_of_put(const Request& request, Outcome ended,
                                     EventLoop::Driver& driver);
  std::unique_ptr<link::Channel::Batch> batch_of_requests() const;
  bool is_server() const noexcept { return address_.server == participant_.self; }
  std::shared_ptr<UnderWay::Request> begin_get() const;
  // Sets `none_left` if no item waits, which only the server's process can determine.
  bool take_soon(Sample& item, Access access, const platform::StopCondition& stop,
                 bool& none_left) const;
  Outcome get_by_message(Sample& item, Access access, const platform::StopCondition& stop,
                         CompletionState* life) const;
  // Takes the items that can be taken in the calling thread: from the table of this process, or
  // from the get ring. Returns true if no more items wait.
  bool take_now(std::vector<Sample>& items, std::size_t most, Access access) const;
  bool take_here(std::vector<Sample>& items, std::size_t most, Access access,
                 bool after_messages = false) const;
  bool take_ahead(std::vector<Sample>& items, std::size_t most, Access access) const;
  // Pins items that were taken, in the calling thread.
  void pin_taken(std::span<Sample> items) const;
  Outcome take_many(std::vector<Sample>& items, std::size_t most, Access access,
                    const platform::StopCondition& stop) const;
  // Appends waiting items. Returns false if there were fewer than `count`.
  bool get_waiting(std::vector<Sample>& items, std::size_t count, Access access) const;
  Outcome wait(const Request& request, const platform::StopCondition& stop) const;
  TakenItems::Queue name() const { return {address_.server, address_.queue.number}; }

  ParticipantContext& participant_;
  const QueueAddress address_;
  const std::shared_ptr<const QueueRings> rings_;
  const std::shared_ptr<Pinning> pinning_;
};

}  // namespace tensorbus::bus
