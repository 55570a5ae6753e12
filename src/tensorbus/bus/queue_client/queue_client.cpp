#include "tensorbus/bus/queue_client/queue_client.hpp"

#include <algorithm>
#include <utility>

namespace tensorbus::bus {
namespace {

using namespace std::chrono_literals;

using platform::StopCondition;

// Limits for answers that the host owes at once: to a call without a time-out, to a request that
// does not wait, and to a put that was given up.
constexpr std::chrono::nanoseconds kGrace = 5s;
constexpr std::chrono::nanoseconds kAtOnce = 1s;
constexpr std::chrono::nanoseconds kLastAnswer = 200ms;
constexpr std::chrono::nanoseconds kLeastForAnAnswer = 100ms;  // even if less time is left

using OnGone = std::function<void(const Error&)>;

std::function<void()> cancel(ParticipantCore& core, QueueRequestRef request) {
  return [&core, request = std::move(request)] { cancel_request(core, request); };
}

// The completion of a request, for blocking and for asynchronous callers.
using ReplyCompletion = QueueClient::ReplyCompletion;

PeerSession::OnAnswer tell(ReplyCompletion awaited) {
  return [awaited = std::move(awaited)](PeerSession::Answer& answer) {
    if (const auto* told = std::get_if<link::Reply>(&answer))
      awaited->set(link::Reply(*told));
    else if (const auto* error = std::get_if<Error>(&answer))
      awaited->fail(*error);
    else
      awaited->fail(Error(Code::kProtocol, "an answer to another question"));
  };
}

OnGone gone(ReplyCompletion awaited) {
  return [awaited = std::move(awaited)](const Error& error) { awaited->fail(error); };
}

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
bool waits_for(const StopCondition& stop) { return stop.timeout().count() > 0; }

// Returns how long to wait for an answer. A call that does not wait for an item needs one, too.
StopCondition patience(const StopCondition& stop) {
  return waits_for(stop) ? stop : StopCondition(kAtOnce, stop.give_up());
}

}  // namespace

link::QueueName make_queue(ParticipantCore& core, const QueueOptions& options) {
  const auto awaited = std::make_shared<Completion<link::QueueName>>();
  core.post([awaited, options](ParticipantContext& context) {
    awaited->set(context.queues->make(options));
  });
  (void)awaited->wait(StopCondition::ignoring_signals(std::chrono::nanoseconds::max()));
  return awaited->take();
}

QueueClient::Request QueueClient::start_put(const SampleBuilder& item, bool waits) const {
  const auto awaited = std::make_shared<Completion<link::Reply>>();
  const std::uint32_t flags = waits ? link::Put::kWait : 0;
  auto asked = ask_host(
      core_, address_.host,
      [queue = address_.queue, flags, entry = item.entry(), issued = item.issued(),
       grant = item.most_granted(), awaited](
          ParticipantContext&, const std::shared_ptr<PeerSession>& host, const QueueRequestRef&) {
        return host->put(queue, flags, entry, issued, grant, tell(awaited));
      },
      gone(awaited));
  return {awaited, cancel(core_, std::move(asked))};
}

Outcome QueueClient::put(const SampleBuilder& item, const StopCondition& stop) const {
  const auto [awaited, cancel] = start_put(item, waits_for(stop));
  return closed_is_an_outcome([&] {
    Outcome outcome = awaited->wait(patience(stop));
    if (outcome == Outcome::kDone) {
      outcome = Outcome::kTimedOut;  // if there was no room
    } else {
      cancel();
      if (awaited->wait(StopCondition::ignoring_signals(kLastAnswer)) != Outcome::kDone)
        throw Error(Code::kTimeout,
                    "the process that has the queue does not answer: it is stopped, or very busy. "
                    "Whether the item is in the queue is not known");
    }
    const Outcome told = outcome_of(awaited->take());
    return told == Outcome::kTimedOut ? outcome : told;
  });
}

QueueGet QueueClient::start_get(Access access, QueueGet::Mode mode) const {
  return {core_, address_, access, mode};
}

Outcome QueueClient::get(Sample& item, Access access, const StopCondition& stop) const {
  QueueGet getting = start_get(access, {.waits = waits_for(stop)});
  return closed_is_an_outcome([&] {
    try {
      Outcome outcome = getting.take(item, patience(stop));
      if (outcome == Outcome::kTimedOut && getting.has_come())  // it came just now
        outcome = getting.take(item, StopCondition(0ns, stop.give_up()));
      if (outcome != Outcome::kDone) getting.cancel();
      return outcome;
    } catch (...) {
      getting.cancel();
      throw;
    }
  });
}

link::Reply QueueClient::call(link::QueueVerb verb, const GiveUp& give_up,
                              std::uint64_t number) const {
  const auto awaited = start_call(verb, number).awaited;
  if (awaited->wait(StopCondition::ignoring_signals(kGrace, give_up)) != Outcome::kDone)
    throw Error(Code::kTimeout,
                "the process that has the queue does not answer: it is stopped, or very busy");
  return awaited->take();
}

link::Reply QueueClient::open(const StopCondition& stop) const {
  const auto awaited = start_call(link::QueueVerb::kOpen).awaited;
  const auto left = stop.remaining(std::chrono::nanoseconds::max());
  const StopCondition wait(std::max<std::chrono::nanoseconds>(left, kLeastForAnAnswer),
                           stop.give_up());
  if (awaited->wait(wait) != Outcome::kDone)
    throw Error(Code::kTimeout, "the process that has the queue does not answer");
  return awaited->take();
}

link::Reply QueueClient::state(const GiveUp& give_up) const {
  return call(link::QueueVerb::kState, give_up);
}

void QueueClient::task_done(const GiveUp& give_up) const {
  const auto oldest = core_.taken_items().remove_oldest(name());
  if (!oldest)
    throw Error(Code::kInvalidArgument,
                "task_done() called more often than this process got items from the queue");
  try {
    (void)call(link::QueueVerb::kTaskDone, give_up, *oldest);
  } catch (const Error& error) {
    if (error.code() == Code::kClosed) core_.taken_items().forget(name());
    throw;
  }
}

Outcome QueueClient::outcome_of(const link::Reply& reply) {
  if (reply.refused == 0) return Outcome::kDone;
  return reply.refused == link::Reply::kShutDown ? Outcome::kShutDown : Outcome::kTimedOut;
}

QueueClient::Request QueueClient::start_call(link::QueueVerb verb, std::uint64_t number) const {
  const auto awaited = std::make_shared<Completion<link::Reply>>();
  auto asked = ask_host(
      core_, address_.host,
      [queue = address_.queue, verb, number, awaited](
          ParticipantContext&, const std::shared_ptr<PeerSession>& host, const QueueRequestRef&) {
        return host->call(queue, verb, number, tell(awaited));
      },
      gone(awaited));
  return {awaited, cancel(core_, std::move(asked))};
}

Outcome QueueClient::join(const StopCondition& stop) const {
  return wait(start_call(link::QueueVerb::kJoin), stop);
}

link::Reply QueueClient::shut_down(bool immediate, const GiveUp& give_up) const {
  return call(link::QueueVerb::kShutDown, give_up, immediate ? 1 : 0);
}

Outcome QueueClient::drain(const StopCondition& stop) const {
  return wait(start_call(link::QueueVerb::kDrain), stop);
}

Outcome QueueClient::wait(const Request& request, const StopCondition& stop) const {
  return closed_is_an_outcome([&] {
    const Outcome outcome = request.awaited->wait(stop);
    if (outcome != Outcome::kDone) request.cancel();
    return outcome;
  });
}

void QueueClient::close(const GiveUp& give_up) const {
  if (address_.host == core_.id())
    core_.post([number = address_.queue.number](ParticipantContext& context) {
      context.queues->close(number);
    });
  else
    (void)call(link::QueueVerb::kClose, give_up);
}

}  // namespace tensorbus::bus
