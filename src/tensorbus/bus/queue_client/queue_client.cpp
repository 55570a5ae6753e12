#include "tensorbus/bus/queue_client/queue_client.hpp"

#include <algorithm>
#include <utility>

#include "tensorbus/bus/subscribe/sample_data.hpp"

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

// The same of a put, which has ended before its caller learns of it.
template <typename Then>
auto end_before(std::shared_ptr<QueuePutter::ByMessage> put, Then then) {
  return [put = std::move(put), then = std::move(then)](auto& came) {
    if (put) put->end();
    then(came);
  };
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

// Once the socket has the acceptances, the host gets them, even if this process dies.
void wait_until_sent(link::Channel& channel) {
  const std::uint64_t mark = channel.mark();
  (void)StopCondition::ignoring_signals(kGrace).wait(
      [&] {
        channel.flush();
        return channel.has_taken(mark);
      },
      [&](std::chrono::nanoseconds most) {
        platform::wait_until_writable(channel.fd(), most);
        return platform::FutexWait::kWoken;
      });
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
  core.run_or_post([awaited, options](ParticipantContext& context) {
    awaited->set(context.queues->make(options));
  });
  (void)awaited->wait(StopCondition::ignoring_signals(std::chrono::nanoseconds::max()));
  return awaited->take();
}

QueueClient::Request QueueClient::start_put(const SampleBuilder& item, bool waits) const {
  const auto awaited = std::make_shared<Completion<link::Reply>>();
  const auto begun = putter_ ? putter_->begin_by_message() : nullptr;
  const std::uint32_t flags = waits ? link::Put::kWait : 0;
  auto asked = ask_host(
      core_, address_.host,
      [queue = address_.queue, flags, entry = item.entry(), issued = item.issued(),
       grant = item.most_granted(), awaited, begun](
          ParticipantContext&, const std::shared_ptr<PeerSession>& host, const QueueRequestRef&) {
        return host->put(queue, flags, entry, issued, grant, end_before(begun, tell(awaited)));
      },
      end_before(begun, gone(awaited)));
  return {awaited, cancel(core_, std::move(asked))};
}

Outcome QueueClient::put(const SampleBuilder& item, const StopCondition& stop) const {
  EventLoop::Driver driver(core_.loop(), address_.host != core_.id());
  return closed_is_an_outcome([&] {
    const Request request = start_put(item, waits_for(stop));
    const Outcome ended = request.awaited->wait(patience(stop), driver);
    if (ended != Outcome::kDone) request.cancel();
    return last_outcome_of_put(request, ended, driver);
  });
}

// `ended`: how the wait for the answer ended; if not by that, the put was cancelled.
Outcome QueueClient::last_outcome_of_put(const Request& request, Outcome ended,
                                         EventLoop::Driver& driver) {
  if (ended == Outcome::kDone)
    ended = Outcome::kTimedOut;  // if there was no room
  else if (request.awaited->wait(StopCondition::ignoring_signals(kLastAnswer), driver) !=
           Outcome::kDone)
    throw Error(Code::kTimeout,
                "the process that has the queue does not answer: it is stopped, or very busy. "
                "Whether the item is in the queue is not known");
  const Outcome told = outcome_of(request.awaited->take());
  return told == Outcome::kTimedOut ? ended : told;
}

// Starts puts, which the host gets in their order. One that hands memory of others on comes into
// the queue when its owners have been asked: those behind it wait for that. So does each that does
// not wait for room itself: there may be room for one and not for the one before.
std::deque<QueueClient::Request> QueueClient::start_puts(const std::list<SampleBuilder>& items,
                                                         bool waits) const {
  std::deque<Request> started;
  const auto batch = items.size() > 1 ? batch_of_requests() : nullptr;
  auto item = items.begin();
  do {
    started.push_back(start_put(*item, waits));
  } while (waits && item++->descriptor().owners.empty() && item != items.end());
  return started;
}

Outcome QueueClient::put_many(std::list<SampleBuilder>& items, const StopCondition& stop,
                              const std::function<void()>& on_put) const {
  EventLoop::Driver driver(core_.loop(), address_.host != core_.id());
  // The last first: an item gets no room that the one before it is still waiting for.
  const auto cancel_all = [](std::deque<Request>& puts) {
    for (auto put = puts.rbegin(); put != puts.rend(); ++put) put->cancel();
  };
  return closed_is_an_outcome([&] {
    Outcome outcome = Outcome::kDone;
    while (!items.empty() && outcome == Outcome::kDone) {
      std::deque<Request> puts = start_puts(items, waits_for(stop));
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

QueueGet QueueClient::start_get(Access access, QueueGet::Mode mode) const {
  return {core_, address_, access, mode};
}

bool QueueClient::take_now(std::vector<Sample>& items, std::size_t most, Access access) const {
  if (!is_host()) return false;
  bool none_left = false;
  Sample sample;
  const std::function<bool(LentSample&)> read = [&](LentSample& held) {
    if (!held.descriptor.tensors.empty()) return false;
    items.reserve(items.size() + 1);  // nothing throws once an item was taken
    return SampleData::read(sample, held, {access, {}, nullptr}) == SampleData::Read::kDone;
  };
  const auto take_all = [&](ParticipantContext& context) {
    for (; most != 0; --most) {
      const auto number = context.queues->take_now(address_.queue, read, none_left);
      if (!number) return;
      items.push_back(std::move(sample));
      core_.taken_items().add(name(), *number);
    }
  };
  try {
    (void)core_.run_now(take_all);
  } catch (const std::exception&) {  // what was taken is returned; the caller meets it again
  }
  return none_left;
}

Outcome QueueClient::get(Sample& item, Access access, const StopCondition& stop) const {
  std::vector<Sample> taken;
  take_now(taken, 1, access);
  if (!taken.empty()) {
    item = std::move(taken.front());
    return Outcome::kDone;
  }
  EventLoop::Driver driver(core_.loop(), address_.host != core_.id());
  QueueGet getting = start_get(access, {.waits = waits_for(stop)});
  return closed_is_an_outcome([&] {
    try {
      Outcome outcome = getting.take(item, patience(stop), &driver);
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

Outcome QueueClient::get_many(std::vector<Sample>& items, std::size_t most, Access access,
                              const StopCondition& stop) const {
  constexpr std::size_t kFirst = 4;
  constexpr std::size_t kMost = 64;  // requests at a time
  const std::size_t end = items.size() + most;
  items.reserve(items.size() + 1);  // nothing throws once an item was taken
  const std::size_t before = items.size();
  if (take_now(items, most, access) && items.size() != before) return Outcome::kDone;
  if (items.size() == before) {
    Sample first;
    const Outcome outcome = get(first, access, stop);
    if (outcome != Outcome::kDone) return outcome;
    items.push_back(std::move(first));
    if (take_now(items, end - items.size(), access)) return Outcome::kDone;
  }
  try {
    for (std::size_t batch = kFirst; items.size() < end; batch = std::min(2 * batch, kMost))
      if (!get_waiting(items, std::min(batch, end - items.size()), access)) break;
  } catch (const std::exception&) {  // what was taken is returned; the next call meets it again
  }
  return Outcome::kDone;
}

// Null if the host has not been reached yet.
std::unique_ptr<link::Channel::Batch> QueueClient::batch_of_requests() const {
  if (address_.host == core_.id()) return nullptr;
  const auto awaited = std::make_shared<Completion<std::shared_ptr<link::Channel>>>();
  core_.run_or_post([awaited, host = address_.host](ParticipantContext& context) {
    context.reach(host, [awaited](const std::shared_ptr<PeerSession>& reached) {
      awaited->set(reached ? std::shared_ptr(reached->peer_memory()->channel) : nullptr);
    });
  });
  if (!awaited->done()) return nullptr;
  const auto channel = awaited->take();
  return channel ? std::make_unique<link::Channel::Batch>(channel) : nullptr;
}

// All requests are on their way before the first answer comes.
bool QueueClient::get_waiting(std::vector<Sample>& items, std::size_t count, Access access) const {
  items.reserve(items.size() + count);
  EventLoop::Driver driver(core_.loop(), address_.host != core_.id());
  std::list<QueueGet> gets;
  auto batch = batch_of_requests();
  for (std::size_t i = 0; i < count; ++i)
    gets.emplace_back(core_, address_, access, QueueGet::Mode{.waits = false});
  batch.reset();
  const auto stop = StopCondition::ignoring_signals(kAtOnce);
  std::shared_ptr<link::Channel> channel;
  try {
    for (; !gets.empty(); gets.pop_front()) {
      Sample item;
      if (gets.front().take(item, stop, &driver) != Outcome::kDone) break;
      items.push_back(std::move(item));
      if (channel) continue;
      channel = gets.front().host_channel();
      batch = std::make_unique<link::Channel::Batch>(channel);  // of the acceptances that follow
    }
  } catch (const std::exception&) {  // what was taken is returned; the next call meets it again
  }
  for (QueueGet& get : gets) get.cancel();
  batch.reset();
  if (channel) wait_until_sent(*channel);
  return gets.empty();
}

link::Reply QueueClient::call(link::QueueVerb verb, const GiveUp& give_up,
                              std::uint64_t number) const {
  EventLoop::Driver driver(core_.loop(), address_.host != core_.id());
  const auto awaited = start_call(verb, number).awaited;
  if (awaited->wait(StopCondition::ignoring_signals(kGrace, give_up), driver) != Outcome::kDone)
    throw Error(Code::kTimeout,
                "the process that has the queue does not answer: it is stopped, or very busy");
  return awaited->take();
}

link::Reply QueueClient::open(const StopCondition& stop) const {
  EventLoop::Driver driver(core_.loop(), address_.host != core_.id());
  const auto awaited = start_call(link::QueueVerb::kOpen).awaited;
  const auto left = stop.remaining(std::chrono::nanoseconds::max());
  const StopCondition wait(std::max<std::chrono::nanoseconds>(left, kLeastForAnAnswer),
                           stop.give_up());
  if (awaited->wait(wait, driver) != Outcome::kDone)
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
  EventLoop::Driver driver(core_.loop(), address_.host != core_.id());
  return closed_is_an_outcome([&] {
    const Outcome outcome = request.awaited->wait(stop, driver);
    if (outcome != Outcome::kDone) request.cancel();
    return outcome;
  });
}

void QueueClient::close(const GiveUp& give_up) const {
  if (address_.host == core_.id())
    core_.run_or_post([number = address_.queue.number](ParticipantContext& context) {
      context.queues->close(number);
    });
  else
    (void)call(link::QueueVerb::kClose, give_up);
}

}  // namespace tensorbus::bus
