#include "tensorbus/bus/queue_client/queue_client.hpp"

#include <algorithm>
#include <utility>

#include "tensorbus/bus/queue_client/call_limits.hpp"

namespace tensorbus::bus {
namespace {

using namespace std::chrono_literals;

using platform::StopCondition;

std::function<void()> cancel(ParticipantContext& participant, QueueRequestRef request) {
  return [&participant, request = std::move(request)] { cancel_request(participant, request); };
}

// The completion of a request, for blocking and for asynchronous callers.
using ReplyCompletion = QueueClient::ReplyCompletion;

PeerSession::OnAnswer tell(ReplyCompletion awaited) {
  return [awaited = std::move(awaited)](PeerSession::Answer& answer) {
    if (const auto* reply = std::get_if<link::Reply>(&answer))
      awaited->set(link::Reply(*reply));
    else if (const auto* error = std::get_if<Error>(&answer))
      awaited->fail(*error);
    else
      awaited->fail(Error(Code::kProtocol, "the reply does not match the request"));
  };
}

// Calls `then` after `put` has ended, so that a put ends before its caller is notified.
template <typename Then>
auto end_before(std::shared_ptr<UnderWay::Request> put, Then then) {
  return [put = std::move(put), then = std::move(then)](auto& came) {
    if (put) put->end();
    then(came);
  };
}

}  // namespace

link::QueueName make_queue(ParticipantContext& participant, const QueueOptions& options) {
  const auto awaited = std::make_shared<Completion<link::QueueName>>();
  participant.run_or_post([awaited, options](ParticipantContext& context) {
    try {
      // Opens the session of this process with itself now, so that later requests to its own queue
      // need no file descriptor.
      context.reach(context.self, [](const std::shared_ptr<PeerSession>& own) {
        if (own) own->mark_used();
      });
      awaited->set(context.queues->make(options));
    } catch (const Error& error) {
      awaited->fail(error);
    }
  });
  (void)awaited->wait(StopCondition::ignoring_signals(std::chrono::nanoseconds::max()));
  return awaited->take();
}

QueueClient::Request QueueClient::start_put(const SampleBuilder& item, bool waits,
                                            std::chrono::nanoseconds patience) const {
  const auto awaited = std::make_shared<Completion<link::Reply>>();
  const auto begun = rings_ ? rings_->putter->begin_by_message() : nullptr;
  const std::uint32_t flags = waits ? link::Put::kWait : 0;
  auto asked = ask_server(
      participant_, address_.server, patience,
      [queue = address_.queue, flags, entry = item.entry(), issued = item.issued(),
       grant = item.max_grant()](ParticipantContext&, const std::shared_ptr<PeerSession>& server,
                                 const QueueRequestRef&, PeerSession::OnAnswer on_answer) {
        return server->put(queue, flags, entry, issued, grant, std::move(on_answer));
      },
      end_before(begun, tell(awaited)));
  return {awaited, cancel(participant_, std::move(asked))};
}

Outcome QueueClient::put(const SampleBuilder& item, const StopCondition& stop) const {
  EventLoop::Driver driver(participant_.loop, address_.server != participant_.self);
  return closed_is_an_outcome([&] {
    const Request request = start_put(item, waits_for(stop), PatientRequest::patience_of(stop));
    const Outcome ended = request.awaited->wait(patience(stop), driver);
    if (ended != Outcome::kDone) request.cancel();
    return last_outcome_of_put(request, ended, driver);
  });
}

// `ended`: the outcome of the wait for the reply. If no reply came, the put was cancelled.
Outcome QueueClient::last_outcome_of_put(const Request& request, Outcome ended,
                                         EventLoop::Driver& driver) {
  if (ended == Outcome::kDone)
    ended = Outcome::kTimedOut;  // the outcome if the queue had no room
  else if (request.awaited->wait(StopCondition::ignoring_signals(kLastAnswer), driver) !=
           Outcome::kDone)
    throw Error(Code::kTimeout,
                "the queue's process does not reply: it is stopped, or very busy. The item may be "
                "in the queue");
  const Outcome replied = outcome_of(request.awaited->take());
  return replied == Outcome::kTimedOut ? ended : replied;
}

// Starts puts, in order. An item with memory of other owners enters the queue only when these
// owners have replied. So no put is started after it: later items must not overtake it. The same
// holds for a put that does not wait for room: a later item might find room that this item did not
// find.
std::deque<QueueClient::Request> QueueClient::start_puts(const std::list<SampleBuilder>& items,
                                                         const StopCondition& stop) const {
  const bool waits = waits_for(stop);
  std::deque<Request> started;
  const auto batch = items.size() > 1 ? batch_of_requests() : nullptr;
  for (const SampleBuilder& item : items) {
    started.push_back(start_put(item, waits, PatientRequest::patience_of(stop)));
    if (!waits || !item.descriptor().owners.empty()) break;
  }
  return started;
}

Outcome QueueClient::put_many(std::list<SampleBuilder>& items, const StopCondition& stop,
                              const std::function<void()>& on_put) const {
  EventLoop::Driver driver(participant_.loop, address_.server != participant_.self);
  // Cancels the last put first, so that no item gets room while an earlier item still waits for it.
  const auto cancel_all = [](std::deque<Request>& puts) {
    for (auto put = puts.rbegin(); put != puts.rend(); ++put) put->cancel();
  };
  return closed_is_an_outcome([&] {
    Outcome outcome = Outcome::kDone;
    while (!items.empty() && outcome == Outcome::kDone) {
      std::deque<Request> puts = start_puts(items, stop);
      try {
        Outcome ended = Outcome::kDone;
        for (; !puts.empty(); puts.pop_front()) {
          if (ended == Outcome::kDone) {
            ended = puts.front().awaited->wait(patience(stop), driver);
            if (ended != Outcome::kDone) cancel_all(puts);
          }
          const Outcome put = last_outcome_of_put(puts.front(), ended, driver);
          if (outcome != Outcome::kDone) continue;
          if (put == Outcome::kDone) on_put();
          outcome = put;
        }
      } catch (...) {
        if (!puts.empty()) puts.pop_front();
        cancel_all(puts);
        throw;
      }
    }
    return outcome;
  });
}

link::Reply QueueClient::call(link::QueueVerb verb, const GiveUp& give_up,
                              std::uint64_t number) const {
  EventLoop::Driver driver(participant_.loop, address_.server != participant_.self);
  const auto awaited = start_call(verb, number).awaited;
  if (awaited->wait(StopCondition::ignoring_signals(kGrace, give_up), driver) != Outcome::kDone)
    throw Error(Code::kTimeout, "the queue's process does not reply: it is stopped, or very busy");
  return awaited->take();
}

link::QueueSettings QueueClient::open(const StopCondition& stop) const {
  EventLoop::Driver driver(participant_.loop, address_.server != participant_.self);
  const auto left = stop.remaining(std::chrono::nanoseconds::max());
  const auto awaited =
      start_call(link::QueueVerb::kOpen, 0, PatientRequest::patience_of(stop)).awaited;
  const StopCondition wait(std::max<std::chrono::nanoseconds>(left, kMinForAnAnswer),
                           stop.give_up());
  if (awaited->wait(wait, driver) != Outcome::kDone)
    throw Error(Code::kTimeout, "the queue's process does not reply");
  return link::QueueSettings::of(awaited->take().values);
}

link::QueueState QueueClient::state(const GiveUp& give_up) const {
  return link::QueueState::of(call(link::QueueVerb::kState, give_up).values);
}

void QueueClient::task_done(const GiveUp& give_up) const {
  const auto oldest = participant_.taken_items.remove_oldest(name());
  if (!oldest)
    throw Error(Code::kInvalidArgument,
                "task_done() called more often than this process got items from the queue");
  (void)call(link::QueueVerb::kTaskDone, give_up, *oldest);
}

ReplyCompletion QueueClient::answered() {
  auto awaited = std::make_shared<Completion<link::Reply>>();
  awaited->set({});
  return awaited;
}

Outcome QueueClient::outcome_of(const link::Reply& reply) {
  if (reply.refused == 0) return Outcome::kDone;
  return reply.refused == link::Reply::kShutDown ? Outcome::kShutDown : Outcome::kTimedOut;
}

QueueClient::Request QueueClient::start_call(link::QueueVerb verb, std::uint64_t number,
                                             std::chrono::nanoseconds patience) const {
  const auto awaited = std::make_shared<Completion<link::Reply>>();
  auto asked = ask_server(
      participant_, address_.server, patience,
      [queue = address_.queue, verb, number](
          ParticipantContext&, const std::shared_ptr<PeerSession>& server, const QueueRequestRef&,
          PeerSession::OnAnswer on_answer) {
        return server->call(queue, verb, number, std::move(on_answer));
      },
      tell(awaited));
  return {awaited, cancel(participant_, std::move(asked))};
}

Outcome QueueClient::join(const StopCondition& stop) const {
  return wait(start_call(link::QueueVerb::kJoin, 0, PatientRequest::patience_of(stop)), stop);
}

link::QueueRest QueueClient::shut_down(bool immediate, const GiveUp& give_up) const {
  return link::QueueRest::of(call(link::QueueVerb::kShutDown, give_up, immediate ? 1 : 0).values);
}

Outcome QueueClient::drain(const StopCondition& stop) const {
  return wait(start_call(link::QueueVerb::kDrain, 0, PatientRequest::patience_of(stop)), stop);
}

Outcome QueueClient::wait(const Request& request, const StopCondition& stop) const {
  EventLoop::Driver driver(participant_.loop, address_.server != participant_.self);
  return closed_is_an_outcome([&] {
    const Outcome outcome = request.awaited->wait(stop, driver);
    if (outcome != Outcome::kDone) request.cancel();
    return outcome;
  });
}

void QueueClient::close(const GiveUp& give_up) const {
  if (address_.server == participant_.self)
    participant_.run_or_post([number = address_.queue.number](ParticipantContext& context) {
      context.queues->close(number);
    });
  else
    (void)call(link::QueueVerb::kClose, give_up);
}

}  // namespace tensorbus::bus
