#include "tensorbus/bus/queue/mirror_server.hpp"

#include <string>
#include <utility>

#include "tensorbus/bus/session/acquire_leases.hpp"

namespace tensorbus::bus {

using Kind = MirrorEvent::Kind;

// Sends the replies of the table to local clients, and events for the home to `events`.
struct MirrorServer::Port {
  MirrorEvents& events;
  using Request = Table::Request;

  void offer(const Request& to, const MirrorItem& item, std::uint64_t number) const {
    to.client->lend(to.number, item.entry, item.issued, memory::Grant::kRead, number);
  }
  void done(const Request& to) const { to.client->reply({.request = to.number}); }
  void timed_out(const Request& to) const {
    to.client->reply({.request = to.number, .refused = link::Reply::kTimedOut});
  }
  void shut_down(const Request& to) const {
    to.client->reply({.request = to.number, .refused = link::Reply::kShutDown});
  }
  void deny(const Request& to, const Error& why) const { to.client->deny(to.number, why); }
  Table::Table::Clock::time_point now() const noexcept { return Table::Table::Clock::now(); }

  void demand(std::size_t gets) const { events.push({Kind::kDemand, gets}); }
  void cancelled(std::uint64_t id) const { events.push({Kind::kCancel, id}); }
  void taken(std::uint64_t tag) const { events.push({Kind::kTaken, tag}); }
  void spoilt(std::uint64_t tag) const { events.push({Kind::kSpoilt, tag}); }
  void done(std::uint64_t what) const { events.push({Kind::kDone, what}); }
  void died(std::uint64_t what) const { events.push({Kind::kDied, what}); }
  void passed(std::uint64_t items) const { events.push({Kind::kPassed, items}); }
};

void MirrorServer::on_put(const Client& from, const link::Put& asked) {
  const Table::Request request{from, asked.request};
  try {
    table_.arrive(request);
  } catch (const Error&) {
    from->give_back(asked.lent);
    throw;
  }
  const bool waits = (asked.flags & link::Put::kWait) != 0;
  acquire_leases(context_, from, asked.lent, memory::Grant::kRead,
                 {[self = shared_from_this(), request, waits](LentRef item) {
                    if (const std::uint64_t id = self->table_.put(request))
                      self->events_->push({Kind::kPut, id, {}, 0, waits, std::move(item)});
                  },
                  [self = shared_from_this(), request](const Error& error) {
                    if (self->table_.not_put(request)) request.client->deny(request.number, error);
                  }});
}

void MirrorServer::on_get(const Client& from, const link::Get& asked) {
  Port port{*events_};
  const bool waits = (asked.flags & link::Get::kWait) != 0;
  if (const std::uint64_t id = table_.get(port, {from, asked.request}, waits))
    events_->push({Kind::kPoll, id});
}

void MirrorServer::on_call(const Client& from, const link::QueueCall& asked) {
  Port port{*events_};
  const auto verb = static_cast<link::QueueVerb>(asked.verb);
  switch (verb) {
    case link::QueueVerb::kTaskDone:
      table_.task_done(port, from, asked.number);
      return from->reply({.request = asked.request});
    case link::QueueVerb::kState:
    case link::QueueVerb::kJoin:
    case link::QueueVerb::kClose:
    case link::QueueVerb::kShutDown:
    case link::QueueVerb::kDrain: {
      const std::uint64_t id = table_.call({from, asked.request}, asked.verb);
      return events_->push({Kind::kCall, id, verb, asked.number});
    }
    default:
      throw Error(Code::kInvalidArgument, "QUEUE.verb: " + std::to_string(asked.verb));
  }
}

void MirrorServer::on_take(const Client& from, const link::Take& taken) {
  Port port{*events_};
  if (taken.spoilt != 0)
    table_.spoil(port, {from, taken.request});
  else
    table_.take(port, {from, taken.request});
}

void MirrorServer::on_cancel(const Client& from, const link::Cancel& cancelled) {
  Port port{*events_};
  table_.cancel(port, {from, cancelled.request}, cancelled.read != 0);
}

void MirrorServer::forget(const Client& client) {
  Port port{*events_};
  table_.forget(port, client);
}

void MirrorServer::offer(std::uint64_t tag, MirrorItem item) {
  if (closed_) return;
  Port port{*events_};
  table_.offer(port, tag, std::move(item));
}

bool MirrorServer::withdraw(std::uint64_t tag) {
  Port port{*events_};
  return table_.withdraw(port, tag);
}

void MirrorServer::answer(std::uint64_t id, Outcome outcome, const link::ReplyValues& values) {
  Port port{*events_};
  if (outcome == Outcome::kClosed) return deny(id, Error(Code::kClosed, "the queue is closed"));
  const bool over = outcome == Outcome::kShutDown;
  if (table_.end_poll(port, id, over)) return;
  const auto ended = table_.end(id);
  if (!ended) return;
  const Client& client = ended->from.client;
  link::Reply reply{.request = ended->from.number, .values = values};
  if (outcome != Outcome::kDone)
    reply.refused = over ? link::Reply::kShutDown : link::Reply::kTimedOut;
  if (ended->what == static_cast<std::uint32_t>(link::QueueVerb::kShutDown)) {
    auto rest = link::QueueRest::of(values);
    rest.other_getters += table_.table().getters_besides(client);  // the home sees only the bridge
    rest.has_asked = table_.table().has_asked(client);
    reply.values = rest.values();
  }
  client->reply(reply);
}

void MirrorServer::deny(std::uint64_t id, const Error& why) {
  if (const auto ended = table_.end(id)) ended->from.client->deny(ended->from.number, why);
}

void MirrorServer::end_gets(std::optional<std::uint64_t> died) {
  Port port{*events_};
  table_.end_gets(port, died);
}

void MirrorServer::close() {
  closed_ = true;
  Port port{*events_};
  table_.close(port, Error(Code::kClosed, "the queue is closed, or its machine cannot be reached"));
}

}  // namespace tensorbus::bus
