#include "tensorbus/bus/queue/queue_host.hpp"

#include <cstring>

#include "tensorbus/bus/queue/reoffer.hpp"
#include "tensorbus/bus/session/acquire_leases.hpp"
#include "tensorbus/link/ring/message_lease_source.hpp"
#include "tensorbus/platform/limits.hpp"

namespace tensorbus::bus {

// Sends the answers of a queue's table to its clients.
struct QueueHost::Port {
  ParticipantContext& context;
  memory::Grant grant;
  using Request = Table::Request;

  void offer(const Request& to, const LentRef& item, std::uint64_t number) const {
    platform::with_memory_errors([&] {
      const Reoffer named = reoffer(context, item, grant);
      to.client->lend(to.number, named.entry, named.issued, grant, number);
    });
  }
  void done(const Request& to) const { to.client->tell({.request = to.number}); }
  void timed_out(const Request& to) const {
    to.client->tell({.request = to.number, .refused = link::Reply::kTimedOut});
  }
  void shut_down(const Request& to) const {
    to.client->tell({.request = to.number, .refused = link::Reply::kShutDown});
  }
  void deny(const Request& to, const Error& why) const { to.client->deny(to.number, why); }
  Table::Clock::time_point now() const noexcept { return Table::Clock::now(); }
};

namespace {

constexpr std::chrono::milliseconds kLookAgain{1};

std::uint64_t bytes_of(const LentSample& item) {
  std::uint64_t bytes = item.descriptor.fields.size();
  for (const TensorEntry& entry : item.descriptor.tensors)
    bytes += static_cast<std::uint64_t>(span_of(entry.layout).bytes());
  return bytes;
}

}  // namespace

QueueHost::QueueHost(ParticipantContext& context)
    : context_(context), looking_again_(context.loop.add_task([this] {
        for (auto& [number, hosted] : queues_) const Touch touch(*this, hosted);
      })) {}

void QueueHost::pull(Hosted& queue) {
  if (queue.rings.empty()) return;
  bool any = false;
  const auto enter_one = [&](const PutRings::Lender& from, const link::PutSlot& slot) {
    enter(queue, from, slot);
    any = true;
  };
  const auto done = [&] {
    queue.table.set_promised(queue.rings.promised());
    if (!any) return;
    Port port{context_, queue.grant()};
    queue.table.settle(port);
  };
  try {
    queue.rings.pull(enter_one);
  } catch (...) {
    done();
    throw;
  }
  done();
}

// What is malformed is in no queue, and ends nothing: its client may be another program.
void QueueHost::enter(Hosted& queue, const PutRings::Lender& from, const link::PutSlot& slot) {
  const std::size_t length = slot.length;
  if (length > link::PutSlot::kMostBytes) return;
  LentRef item;
  try {
    item = std::make_shared<LentSample>(from, std::span(slot.bytes).first(length));
  } catch (const Error& error) {
    if (error.code() == Code::kOutOfMemory) throw;
    return;
  }
  const std::uint64_t bytes = bytes_of(*item);
  queue.table.enter(std::move(item), bytes);
}

PutRings::Lender QueueHost::lender_of(const PeerSession& client, const Hosted& queue) const {
  return std::make_shared<link::MessageLeaseSource>(client.source(), client.peer_memory(),
                                                    queue.grant(), context_.lent, 0);
}

// The second time, no entry is left for its time.
void QueueHost::pull_all(Hosted& queue) {
  queue.rings.take_back();
  pull(queue);
  pull(queue);
}

void QueueHost::look_after(Hosted& queue) noexcept {
  if (queue.rings.empty()) return;
  constexpr int kMostRounds = 4;
  try {
    for (int i = 0; i < kMostRounds; ++i) {
      queue.rings.promise(queue.table.room_to_promise(), queue.options.maxsize);
      queue.table.set_promised(queue.rings.promised());
      if (!queue.rings.wait(queue.table.waiting_gets() != 0)) return;
      pull(queue);
    }
  } catch (const std::exception&) {  // no memory
  }
  context_.loop.schedule(looking_again_, kLookAgain);
}

link::QueueName QueueHost::make(const QueueOptions& options) { return add(options, nullptr); }

MadeMirror QueueHost::make_mirror(const QueueOptions& options,
                                  const std::shared_ptr<MirrorEvents>& events) {
  auto mirror = std::make_shared<MirrorHost>(context_, options.redeliver, events);
  return {add(options, mirror), mirror};
}

link::QueueName QueueHost::add(const QueueOptions& options, std::shared_ptr<MirrorHost> mirror) {
  std::uint64_t key = 0;
  std::memcpy(&key, Id::random().bytes.data(), sizeof key);
  queues_.emplace(
      next_, Hosted{key, options,
                    Table(options.maxsize, options.redeliver, kOfferPatience, options.max_bytes),
                    std::move(mirror)});
  return {next_++, key};
}

void QueueHost::close(std::uint64_t number) {
  if (const auto found = queues_.find(number); found != queues_.end()) pull_all(found->second);
  auto closed = queues_.extract(number);
  if (!closed) return;
  if (closed.mapped().mirror) return closed.mapped().mirror->close();
  Table& table = closed.mapped().table;
  Port port{context_, closed.mapped().grant()};
  if (table.is_shut_down() && table.items() == 0) {
    shut_down_.insert(number);
    if (shut_down_.size() > kMostRemembered) shut_down_.erase(shut_down_.begin());
  }
  table.close(port, Error(Code::kClosed, "the queue is closed"));
}

QueueHost::Hosted& QueueHost::find(const link::QueueName& name, bool by_name) {
  const auto found = queues_.find(name.number);
  if (found == queues_.end()) throw Error(Code::kClosed, "the queue is closed");
  const bool named = by_name && !found->second.options.name.empty();
  if (!named && found->second.key != name.key)
    throw Error(Code::kInvalidArgument, "this address of a queue was made up, or damaged");
  return found->second;
}

void QueueHost::on_put(const Client& from, const link::Put& asked) {
  note_own(from);
  const Table::Request request{from, asked.request};
  memory::Grant grant{};
  try {
    Hosted& queue = find(asked.queue);
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
  // If the queue was closed or the PUT given up meanwhile, it has been answered.
  const auto fail = [this, request, name = asked.queue](const Error& error) {
    const auto found = queues_.find(name.number);
    if (found != queues_.end() && found->second.table.not_put(request))
      request.client->deny(request.number, error);
  };
  collect(context_, from, asked.lent, grant,
          {[this, request, number = asked.queue.number](LentRef item) {
             put(request, number, std::move(item));
           },
           fail});
}

// Room that was promised, and is not used, is for those that ask.
void QueueHost::put(const Table::Request& request, std::uint64_t number, LentRef item) {
  const auto found = queues_.find(number);
  if (found == queues_.end()) return;
  Hosted& queue = found->second;
  const Touch touch(*this, queue);
  if (!queue.table.has_room()) pull_all(queue);
  Port port{context_, queue.grant()};
  const std::uint64_t bytes = bytes_of(*item);
  queue.table.put(port, request, std::move(item), bytes);
}

void QueueHost::on_ring(const Client& from, const link::QueueRing& asked, platform::Fd ring) {
  Hosted& queue = find(asked.queue);
  if (queue.mirror || queue.options.max_bytes != 0)
    throw Error(Code::kUnsupported, "each item of this queue is asked for");
  const Touch touch(*this, queue);
  queue.rings.add(from, lender_of(*from, queue), std::move(ring));
  look_after(queue);
  from->tell({.request = asked.request});
}

void QueueHost::on_wake(const Client& from, const link::QueueWake& woken) {
  const auto found = queues_.find(woken.queue.number);
  if (found == queues_.end()) return;
  found->second.rings.woken(from);
  const Touch touch(*this, found->second);
}

void QueueHost::on_get(const Client& from, const link::Get& asked) {
  if (shut_down_.contains(asked.queue.number))
    return from->tell({.request = asked.request, .refused = link::Reply::kShutDown});
  Hosted& queue = find(asked.queue);
  if (queue.mirror) return queue.mirror->on_get(from, asked);
  note_own(from);
  const Touch touch(*this, queue);
  Port port{context_, queue.grant()};
  queue.table.get(port, {from, asked.request}, (asked.flags & link::Get::kWait) != 0,
                  (asked.flags & link::Get::kHold) != 0);
}

void QueueHost::on_take(const Client& from, const link::Take& taken) {
  const auto found = queues_.find(taken.queue.number);
  if (found == queues_.end()) return;  // the queue was closed meanwhile
  if (found->second.mirror) return found->second.mirror->on_take(from, taken);
  const Touch touch(*this, found->second);
  Port port{context_, found->second.grant()};
  if (taken.spoilt != 0)
    found->second.table.spoil(port, {from, taken.request});
  else
    found->second.table.take(port, {from, taken.request});
}

void QueueHost::on_call(const Client& from, const link::QueueCall& asked) {
  const auto verb = static_cast<link::QueueVerb>(asked.verb);
  Hosted& queue = find(asked.queue, verb == link::QueueVerb::kOpen);
  if (queue.mirror && verb != link::QueueVerb::kOpen) return queue.mirror->on_call(from, asked);
  if (verb == link::QueueVerb::kClose) {
    close(asked.queue.number);
    return from->tell({.request = asked.request});
  }
  const Touch touch(*this, queue);
  Port port{context_, queue.grant()};
  switch (verb) {
    case link::QueueVerb::kOpen:
      return from->tell(
          {.request = asked.request,
           .first = queue.options.maxsize,
           .second = (queue.options.redeliver ? 1U : 0U) | (queue.options.shared ? 2U : 0U),
           .third = queue.key,
           .fourth = queue.options.max_bytes});
    case link::QueueVerb::kState:
      return from->tell({.request = asked.request,
                         .first = queue.table.items(),
                         .second = queue.table.unfinished(),
                         .third = queue.table.lost(),
                         .fourth = queue.table.bytes()});
    case link::QueueVerb::kTaskDone:
      queue.table.task_done(port, from, asked.number);
      return from->tell({.request = asked.request});
    case link::QueueVerb::kJoin:
      return queue.table.join(port, {from, asked.request});
    case link::QueueVerb::kClose:
      return;
    case link::QueueVerb::kShutDown:
      pull_all(queue);
      queue.table.shut_down(port, asked.number != 0);
      return from->tell({.request = asked.request,
                         .first = queue.table.items(),
                         .second = queue.table.getters_besides(from),
                         .third = queue.table.has_asked(from) ? 1U : 0U});
    case link::QueueVerb::kDrain:
      return queue.table.drain(port, {from, asked.request});
    case link::QueueVerb::kGiveBack:
      queue.table.give_back(port, from, asked.number);
      return from->tell({.request = asked.request});
  }
  throw Error(Code::kInvalidArgument, "QUEUE.verb: " + std::to_string(asked.verb));
}

void QueueHost::on_cancel(const Client& from, const link::Cancel& cancelled) {
  for (auto& [number, hosted] : queues_) {
    if (hosted.mirror) {
      hosted.mirror->on_cancel(from, cancelled);
      continue;
    }
    const Touch touch(*this, hosted);
    Port port{context_, hosted.grant()};
    hosted.table.cancel(port, {from, cancelled.request}, cancelled.read != 0);
  }
}

void QueueHost::forget(const Client& client) {
  if (own_ == client) {
    own_.reset();
    for (auto& [number, hosted] : queues_) hosted.own_lender.reset();
  }
  for (auto& [number, hosted] : queues_) {
    if (hosted.mirror)
      hosted.mirror->forget(client);
    else
      forget(hosted, client);
  }
}

// What the client has put before it died is in the queue.
void QueueHost::forget(Hosted& queue, const Client& client) {
  queue.rings.end(client);
  try {
    pull(queue);
    pull(queue);
  } catch (const std::exception&) {  // no memory: it stays in the ring
    context_.loop.schedule(looking_again_, kLookAgain);
  }
  Port port{context_, queue.grant()};
  queue.table.forget(port, client);
  look_after(queue);
}

// Not by its id, which any peer may claim.
void QueueHost::note_own(const Client& client) {
  if (!own_ && client->peer_memory()->channel->is_loop_back()) own_ = client;
}

QueueHost::Hosted* QueueHost::find_for_own(const link::QueueName& name) noexcept {
  const auto found = queues_.find(name.number);
  const bool is_here = found != queues_.end() && found->second.key == name.key;
  return own_ && is_here && !found->second.mirror ? &found->second : nullptr;
}

bool QueueHost::put_now(const link::QueueName& name, std::span<const std::byte> descriptor) {
  Hosted* const queue = find_for_own(name);
  if (queue == nullptr || queue->table.is_shut_down()) return false;
  const Touch touch(*this, *queue);
  if (!queue->table.has_room()) pull_all(*queue);
  if (!queue->own_lender) queue->own_lender = lender_of(*own_, *queue);
  auto item = std::make_shared<LentSample>(queue->own_lender, descriptor);
  const std::uint64_t bytes = bytes_of(*item);
  Port port{context_, queue->grant()};
  return queue->table.put_now(port, std::move(item), bytes);
}

std::optional<std::uint64_t> QueueHost::take_now(const link::QueueName& name,
                                                 const std::function<bool(LentSample&)>& read,
                                                 bool& none_left) {
  Hosted* const queue = find_for_own(name);
  if (queue == nullptr) return std::nullopt;
  const Touch touch(*this, *queue);
  Port port{context_, queue->grant()};
  const std::uint64_t number =
      queue->table.take_now(port, own_, [&](const LentRef& item) { return read(*item); });
  none_left = queue->table.items() == 0;
  if (number == 0) return std::nullopt;
  return queue->options.redeliver ? number : 0;
}

}  // namespace tensorbus::bus
