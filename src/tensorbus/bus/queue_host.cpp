#include "tensorbus/bus/queue_host.hpp"

#include <cstring>
#include <utility>

#include "tensorbus/bus/collect.hpp"
#include "tensorbus/bus/onward.hpp"
#include "tensorbus/platform/limits.hpp"

namespace tensorbus::bus {

link::QueueName QueueHost::make(const HostedQueueOptions& options) {
  std::uint64_t key = 0;
  std::memcpy(&key, Id::random().bytes.data(), sizeof key);
  const memory::Grant grant = options.shared ? memory::Grant::kWrite : memory::Grant::kRead;
  auto queue = std::make_shared<HostedQueue>(
      options, [this, grant](const Party& to, const HeldRef& item, std::uint64_t number) {
        lend(to, item, number, grant);
      });
  queues_.emplace(next_, Hosted{key, std::move(queue)});
  return {next_++, key};
}

void QueueHost::close(std::uint64_t number) {
  const auto closed = queues_.extract(number);
  if (closed) closed.mapped().queue->close();
}

HostedQueue& QueueHost::find(const link::QueueName& name, bool by_name) {
  const auto found = queues_.find(name.number);
  if (found == queues_.end()) throw Error(Code::kClosed, "the queue is closed");
  const bool named = by_name && !found->second.queue->options().name.empty();
  if (!named && found->second.key != name.key)
    throw Error(Code::kInvalidArgument, "this address of a queue was made up, or damaged");
  return *found->second.queue;
}

void QueueHost::on_put(const std::shared_ptr<Exchange>& from, const link::Put& asked) {
  memory::Grant grant{};
  try {
    grant = find(asked.queue).grant();
  } catch (const Error&) {
    from->give_back(asked.lent);
    throw;
  }
  collect(surroundings_, from, asked.lent, grant,
          {[this, from, asked](HeldRef item) {
             try {
               HostedQueue& queue = find(asked.queue);
               const Party party{from, asked.request};
               if ((asked.flags & link::Put::kCameBack) != 0)
                 queue.take_back(party, std::move(item), asked.lent.number);
               else
                 queue.put(party, std::move(item), asked.flags);
             } catch (const Error& error) {  // it was closed meanwhile
               from->deny(asked.request, error);
             }
           },
           [from, asked](const Error& error) { from->deny(asked.request, error); }});
}

void QueueHost::on_get(const std::shared_ptr<Exchange>& from, const link::Get& asked) {
  find(asked.queue).get({from, asked.request}, asked.flags);
}

void QueueHost::on_call(const std::shared_ptr<Exchange>& from, const link::QueueCall& asked) {
  const auto verb = static_cast<link::QueueVerb>(asked.verb);
  HostedQueue& queue = find(asked.queue, verb == link::QueueVerb::kOpen);
  const Party party{from, asked.request};
  switch (verb) {
    case link::QueueVerb::kOpen: {
      const HostedQueueOptions& options = queue.options();
      return from->tell({.request = asked.request,
                         .first = options.maxsize,
                         .second = (options.redeliver ? 1U : 0U) | (options.shared ? 2U : 0U),
                         .third = queues_.at(asked.queue.number).key});
    }
    case link::QueueVerb::kState:
      return queue.tell_state(party);
    case link::QueueVerb::kTaskDone:
      return queue.task_done(party);
    case link::QueueVerb::kJoin:
      return queue.join(party);
    case link::QueueVerb::kClose:
      close(asked.queue.number);
      return from->tell({.request = asked.request});
  }
  throw Error(Code::kInvalidArgument, "QUEUE.verb: " + std::to_string(asked.verb));
}

void QueueHost::on_cancel(const Exchange& from, std::uint32_t request) {
  for (const auto& [number, hosted] : queues_) hosted.queue->cancel(from, request);
}

void QueueHost::forget(const Exchange& client) {
  for (const auto& [number, hosted] : queues_) hosted.queue->forget(client);
}

void QueueHost::lend(const Party& to, const HeldRef& item, std::uint64_t number,
                     memory::Grant grant) {
  platform::with_memory_errors([&] {
    const Onward named = onward(surroundings_, item, grant);
    to.client->lend(to.request, named.entry, named.issued, grant, number);
  });
}

}  // namespace tensorbus::bus
