#pragma once

#include <functional>
#include <memory>
#include <tensorbus/options.hpp>
#include <tensorbus/stats.hpp>

#include "tensorbus/bus/event_loop/completion.hpp"
#include "tensorbus/bus/participant/participant_core.hpp"
#include "tensorbus/bus/publish/sample_builder.hpp"
#include "tensorbus/bus/queue_client/queue_get.hpp"
#include "tensorbus/bus/session/queue_requests.hpp"
#include "tensorbus/link/wire/queue_messages.hpp"

namespace tensorbus::bus {

// Makes a queue whose host is this participant.
link::QueueName make_queue(ParticipantCore& core, const QueueOptions& options);

// A process's client of a queue: sends requests to the queue's host, which may be this participant,
// and waits for the answers. It refers to a ParticipantCore and is made for each call. Thread-safe.
class QueueClient {
 public:
  QueueClient(ParticipantCore& core, const QueueAddress& address)
      : core_(core), address_(address) {}

  using ReplyCompletion = std::shared_ptr<Completion<link::Reply>>;
  struct Request {
    ReplyCompletion awaited;
    std::function<void()> cancel;  // if the caller gives up
  };
  Request start_put(const SampleBuilder& item, bool waits) const;
  QueueGet start_get(Access access, QueueGet::Mode mode) const;
  Request start_call(link::QueueVerb verb, std::uint64_t number = 0) const;
  // Returns the outcome of a put or a call that has come.
  static Outcome outcome_of(const link::Reply& reply);

  // Waits for an answer that the host owes at once.
  link::Reply call(link::QueueVerb verb, const GiveUp& give_up, std::uint64_t number = 0) const;

  // See queue.hpp.
  Outcome put(const SampleBuilder& item, const platform::StopCondition& stop) const;
  Outcome get(Sample& item, Access access, const platform::StopCondition& stop) const;
  link::Reply open(const platform::StopCondition& stop) const;
  link::Reply state(const GiveUp& give_up) const;
  void task_done(const GiveUp& give_up) const;
  Outcome join(const platform::StopCondition& stop) const;
  link::Reply shut_down(bool immediate, const GiveUp& give_up) const;
  Outcome drain(const platform::StopCondition& stop) const;
  // Closes the queue; waits for no item and no other client.
  void close(const GiveUp& give_up) const;

 private:
  Outcome wait(const Request& request, const platform::StopCondition& stop) const;
  TakenItems::Queue name() const { return {address_.host, address_.queue.number}; }

  ParticipantCore& core_;
  const QueueAddress address_;
};

}  // namespace tensorbus::bus
