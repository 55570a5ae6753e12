#include "tensorbus/bus/queue/queue_server.hpp"

#include <cstring>

#include "tensorbus/bus/queue/queue_port.hpp"
#include "tensorbus/bus/session/acquire_leases.hpp"

namespace tensorbus::bus {

namespace {

constexpr std::uint64_t kLentAhead = std::uint64_t{1} << 63;  // sessions do not issue these tokens

}  // namespace

QueueServer::QueueServer(ParticipantContext& context)
    : context_(context), looking_again_(context.loop.add_task([this] {
        for (auto& [number, served] : queues_) const Touch touch(*this, served);
      })) {}

link::QueueName QueueServer::make(const QueueOptions& options) { return add(options, nullptr); }

MadeMirror QueueServer::make_mirror(const QueueOptions& options,
                                    const std::shared_ptr<MirrorEvents>& events) {
  auto mirror = std::make_shared<MirrorServer>(context_, options.redeliver, events);
  return {add(options, mirror), mirror};
}

link::QueueName QueueServer::add(const QueueOptions& options,
                                 std::shared_ptr<MirrorServer> mirror) {
  std::uint64_t key = 0;
  std::memcpy(&key, Id::random().bytes.data(), sizeof key);
  queues_.emplace(next_, ServedQueue{key, options,
                                     Table(options.maxsize, options.redeliver, kOfferPatience,
                                           options.max_bytes),
                                     GetRing(kLentAhead | next_ << 40), std::move(mirror)});
  return {next_++, key};
}

void QueueServer::close(std::uint64_t number) {
  if (const auto found = queues_.find(number); found != queues_.end()) {
    pull_all(found->second);
    take_back_ahead(found->second);
  }
  auto closed = queues_.extract(number);
  if (!closed) return;
  if (closed.mapped().mirror) return closed.mapped().mirror->close();
  Table& table = closed.mapped().table;
  Port port{context_, closed.mapped().grant()};
  if (table.is_shut_down() && table.items() == 0) {
    shut_down_.insert(number);
    if (shut_down_.size() > kMaxRemembered) shut_down_.erase(shut_down_.begin());
  }
  table.close(port, Error(Code::kClosed, "the queue is closed"));
}

QueueServer::ServedQueue& QueueServer::find(const link::QueueName& name, bool by_name) {
  const auto found = queues_.find(name.number);
  if (found == queues_.end()) throw Error(Code::kClosed, "the queue is closed");
  const bool named = by_name && !found->second.options.name.empty();
  if (!named && found->second.key != name.key)
    throw Error(Code::kInvalidArgument, "invalid queue address: its key is wrong");
  return found->second;
}

void QueueServer::on_put(const Client& from, const link::Put& asked) {
  note_own(from);
  const Table::Request request{from, asked.request};
  memory::Grant grant{};
  try {
    ServedQueue& queue = find(asked.queue);
    if (queue.mirror) return queue.mirror->on_put(from, asked);
    grant = queue.grant();
    const Touch touch(*this, queue);
    Port port{context_, grant};
    if (!queue.table.arrive(port, request, (asked.flags & link::Put::kWait) != 0))
      return from->give_back(asked.lent);
  } catch (const Error&) {
    from->give_back(asked.lent);
    throw;
  }
  // If the queue was closed or the PUT cancelled in the meantime, a reply was already sent.
  const auto fail = [this, request, name = asked.queue](const Error& error) {
    const auto found = queues_.find(name.number);
    if (found != queues_.end() && found->second.table.not_put(request))
      request.client->deny(request.number, error);
  };
  acquire_leases(context_, from, asked.lent, grant,
                 {[this, request, number = asked.queue.number](LentRef item) {
                    put(request, number, std::move(item));
                  },
                  fail});
}

// If the request has no room, takes back promised room that was not used.
void QueueServer::put(const Table::Request& request, std::uint64_t number, LentRef item) {
  const auto found = queues_.find(number);
  if (found == queues_.end()) return;
  ServedQueue& queue = found->second;
  const Touch touch(*this, queue);
  if (!queue.table.has_room()) pull_all(queue);
  Port port{context_, queue.grant()};
  const std::uint64_t bytes = item->payload_bytes();
  queue.table.put(port, request, std::move(item), bytes);
  queue.rings.passed_by();
}

void QueueServer::on_get(const Client& from, const link::Get& asked) {
  if (shut_down_.contains(asked.queue.number))
    return from->reply({.request = asked.request, .refused = link::Reply::kShutDown});
  ServedQueue& queue = find(asked.queue);
  if (queue.mirror) return queue.mirror->on_get(from, asked);
  note_own(from);
  const Touch touch(*this, queue);
  take_back_ahead(queue);
  Port port{context_, queue.grant()};
  queue.table.get(port, {from, asked.request}, (asked.flags & link::Get::kWait) != 0,
                  (asked.flags & link::Get::kHold) != 0);
}

void QueueServer::on_take(const Client& from, const link::Take& taken) {
  const auto found = queues_.find(taken.queue.number);
  if (found == queues_.end()) return;  // closed in the meantime
  if (found->second.mirror) return found->second.mirror->on_take(from, taken);
  const Touch touch(*this, found->second);
  Port port{context_, found->second.grant()};
  if (taken.spoilt != 0)
    found->second.table.spoil(port, {from, taken.request});
  else
    found->second.table.take(port, {from, taken.request});
}

void QueueServer::on_call(const Client& from, const link::QueueCall& asked) {
  const auto verb = static_cast<link::QueueVerb>(asked.verb);
  ServedQueue& queue = find(asked.queue, verb == link::QueueVerb::kOpen);
  if (queue.mirror && verb != link::QueueVerb::kOpen) return queue.mirror->on_call(from, asked);
  if (verb == link::QueueVerb::kClose) {
    close(asked.queue.number);
    return from->reply({.request = asked.request});
  }
  const Touch touch(*this, queue);
  Port port{context_, queue.grant()};
  switch (verb) {
    case link::QueueVerb::kOpen:
      return from->reply({.request = asked.request,
                          .values = link::QueueSettings{.maxsize = queue.options.maxsize,
                                                        .redeliver = queue.options.redeliver,
                                                        .shared = queue.options.shared,
                                                        .key = queue.key,
                                                        .max_bytes = queue.options.max_bytes}
                                        .values()});
    case link::QueueVerb::kState:
      return from->reply({.request = asked.request,
                          .values = link::QueueState{.items = queue.table.items(),
                                                     .unfinished = queue.table.unfinished(),
                                                     .lost = queue.table.lost(),
                                                     .bytes = queue.table.bytes()}
                                        .values()});
    case link::QueueVerb::kTaskDone:
      queue.table.task_done(port, from, asked.number);
      return from->reply({.request = asked.request});
    case link::QueueVerb::kJoin:
      return queue.table.join(port, {from, asked.request});
    case link::QueueVerb::kClose:
      return;
    case link::QueueVerb::kShutDown:
      pull_all(queue);
      if (asked.number != 0) take_back_ahead(queue);
      queue.table.shut_down(port, asked.number != 0);
      return from->reply(
          {.request = asked.request,
           .values = link::QueueRest{.items = queue.table.items(),
                                     .other_getters = queue.table.getters_besides(from),
                                     .has_asked = queue.table.has_asked(from)}
                         .values()});
    case link::QueueVerb::kDrain:
      return queue.table.drain(port, {from, asked.request}, asked.number != 0);
    case link::QueueVerb::kGiveBack:
      take_back_ahead(queue);
      queue.table.give_back(port, from, asked.number);
      return from->reply({.request = asked.request});
  }
  throw Error(Code::kInvalidArgument, "QUEUE.verb: " + std::to_string(asked.verb));
}

void QueueServer::on_cancel(const Client& from, const link::Cancel& cancelled) {
  for (auto& [number, served] : queues_) {
    if (served.mirror) {
      served.mirror->on_cancel(from, cancelled);
      continue;
    }
    const Touch touch(*this, served);
    Port port{context_, served.grant()};
    served.table.cancel(port, {from, cancelled.request}, cancelled.read != 0);
  }
}

void QueueServer::forget(const Client& client) {
  if (own_ == client) {
    own_.reset();
    for (auto& [number, served] : queues_) served.own_lender.reset();
  }
  for (auto& [number, served] : queues_) {
    if (served.mirror)
      served.mirror->forget(client);
    else
      forget(served, client);
  }
}

// Enters the items that the client put before it died: they are in the queue.
void QueueServer::forget(ServedQueue& queue, const Client& client) {
  queue.rings.end(client);
  try {
    pull(queue);
    pull(queue);
  } catch (const std::exception&) {  // no memory: the items stay in the ring
    context_.loop.schedule(looking_again_, kLookAgain);
  }
  take_back_ahead(queue);
  queue.get_ring.leave(client);
  Port port{context_, queue.grant()};
  queue.table.forget(port, client);
  look_after(queue);
}

// Checks the channel, not the id: any peer may send any id.
void QueueServer::note_own(const Client& client) {
  if (!own_ && client->peer_memory()->channel->is_loop_back()) own_ = client;
}

}  // namespace tensorbus::bus
