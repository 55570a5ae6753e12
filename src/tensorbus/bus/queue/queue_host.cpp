#include "tensorbus/bus/queue/queue_host.hpp"

#include <cstring>

#include "tensorbus/bus/queue/reoffer.hpp"
#include "tensorbus/bus/session/acquire_leases.hpp"
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

std::uint64_t bytes_of(const LentSample& item) {
  std::uint64_t bytes = item.descriptor.fields.size();
  for (const TensorEntry& entry : item.descriptor.tensors)
    bytes += static_cast<std::uint64_t>(span_of(entry.layout).bytes());
  return bytes;
}

}  // namespace

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
  const Table::Request request{from, asked.request};
  memory::Grant grant{};
  try {
    Hosted& queue = find(asked.queue);
    if (queue.mirror) return queue.mirror->on_put(from, asked);
    grant = queue.grant();
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
          {[this, request, name = asked.queue](LentRef item) {
             const auto found = queues_.find(name.number);
             if (found == queues_.end()) return;
             Port port{context_, found->second.grant()};
             const std::uint64_t bytes = bytes_of(*item);
             found->second.table.put(port, request, std::move(item), bytes);
           },
           fail});
}

void QueueHost::on_get(const Client& from, const link::Get& asked) {
  if (shut_down_.contains(asked.queue.number))
    return from->tell({.request = asked.request, .refused = link::Reply::kShutDown});
  Hosted& queue = find(asked.queue);
  if (queue.mirror) return queue.mirror->on_get(from, asked);
  Port port{context_, queue.grant()};
  queue.table.get(port, {from, asked.request}, (asked.flags & link::Get::kWait) != 0);
}

void QueueHost::on_take(const Client& from, const link::Take& taken) {
  const auto found = queues_.find(taken.queue.number);
  if (found == queues_.end()) return;  // the queue was closed meanwhile
  if (found->second.mirror) return found->second.mirror->on_take(from, taken);
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
      close(asked.queue.number);
      return from->tell({.request = asked.request});
    case link::QueueVerb::kShutDown:
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
    Port port{context_, hosted.grant()};
    hosted.table.cancel(port, {from, cancelled.request}, cancelled.read != 0);
  }
}

void QueueHost::forget(const Client& client) {
  for (auto& [number, hosted] : queues_) {
    if (hosted.mirror) {
      hosted.mirror->forget(client);
      continue;
    }
    Port port{context_, hosted.grant()};
    hosted.table.forget(port, client);
  }
}

template <typename Table>
void describe(const Table& table, QueueReport& report) {
  report.stats = {table.items(), table.unfinished(), table.lost(), table.bytes()};
  report.shut_down = table.is_shut_down();
  report.redelivered = table.redelivered();
  for (const auto& [client, use] : table.clients()) {
    report.in_hand += use.in_hand;
    report.clients.push_back(
        {client->peer_name(), use.in_hand, use.waiting_puts, use.waiting_gets});
  }
}

std::vector<QueueReport> QueueHost::report() const {
  std::vector<QueueReport> all;
  for (const auto& [number, hosted] : queues_) {
    const QueueOptions& options = hosted.options;
    QueueReport report{.name = options.name,
                       .number = number,
                       .maxsize = options.maxsize,
                       .max_bytes = options.max_bytes,
                       .redeliver = options.redeliver};
    if (options.name.starts_with(kServiceQueue))
      report.service = options.name.substr(kServiceQueue.size());
    if (hosted.mirror)
      describe(hosted.mirror->items(), report);
    else
      describe(hosted.table, report);
    all.push_back(std::move(report));
  }
  return all;
}

}  // namespace tensorbus::bus
