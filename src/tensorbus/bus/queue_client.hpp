#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include "tensorbus/bus/awaited.hpp"
#include "tensorbus/bus/options.hpp"
#include "tensorbus/bus/participant_core.hpp"
#include "tensorbus/bus/prepared_sample.hpp"
#include "tensorbus/bus/queue_get.hpp"
#include "tensorbus/bus/queue_host.hpp"
#include "tensorbus/link/control.hpp"

namespace tensorbus::bus {

// Makes a queue whose host is this participant.
link::QueueName make_queue(ParticipantCore& core, const HostedQueueOptions& options);

// One process's end of a queue: asks its host, and waits for the answers. A view; what it calls the
// host is the queue's host, be it this participant itself.
class QueueClient {
 public:
  using Timeout = std::chrono::nanoseconds;

  QueueClient(ParticipantCore& core, const QueueAddress& address)
      : core_(core), address_(address) {}

  using AwaitedTold = std::shared_ptr<Awaited<link::Told>>;
  struct Request {
    AwaitedTold awaited;
    std::function<void()> cancel;  // nobody waits any more
  };
  Request start_put(const PreparedSample& item, bool waits) const;
  QueueGet start_get(Access access, bool waits) const;
  Request start_join() const;

  // See queue.hpp.
  Outcome put(const PreparedSample& item, Timeout timeout, const GiveUp& give_up) const;
  Outcome get(Sample& item, Access access, Timeout timeout, const GiveUp& give_up) const;
  link::Told open(Timeout timeout, const GiveUp& give_up) const;
  link::Told state(const GiveUp& give_up) const;
  void task_done(const GiveUp& give_up) const;
  Outcome join(Timeout timeout, const GiveUp& give_up) const;
  // Waits for nobody.
  void close(const GiveUp& give_up) const;

 private:
  link::Told call(link::QueueVerb verb, const GiveUp& give_up, std::uint64_t number = 0) const;
  TakenItems::Queue name() const { return {address_.host, address_.queue.number}; }

  ParticipantCore& core_;
  const QueueAddress address_;
};

}  // namespace tensorbus::bus
