// The part of QueueHost that puts and lends items without messages.
#include "tensorbus/bus/queue/queue_port.hpp"
#include "tensorbus/link/ring/message_lease_source.hpp"

namespace tensorbus::bus {

void QueueHost::pull(Hosted& queue) {
  collect_taken(queue);
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
  const std::uint64_t bytes = item->payload_bytes();
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
  if (queue.rings.empty() && queue.prefetch.empty()) return;
  constexpr int kMostRounds = 4;
  try {
    for (int i = 0; i < kMostRounds; ++i) {
      queue.rings.promise(queue.table.room_to_promise(), queue.options.maxsize);
      queue.table.set_promised(queue.rings.promised());
      const bool taken = lend_ahead(queue);
      const bool put = queue.rings.wait(queue.table.waiting_gets() != 0);
      if (!taken && !put) return;
      pull(queue);
    }
  } catch (const std::exception&) {  // no memory
  }
  context_.loop.schedule(looking_again_, kLookAgain);
}

void QueueHost::collect_taken(Hosted& queue) {
  bool any = false;
  queue.prefetch.collect([&](const Client& client) {
    any = true;
    note_taken(queue.table, client);
  });
  if (!any) return;
  Port port{context_, queue.grant()};
  queue.table.settle(port);
}

void QueueHost::note_taken(Table& table, const Client& client) noexcept {
  if (client)
    table.take_ahead(client);
  else
    table.lose_ahead();
}

void QueueHost::take_back_ahead(Hosted& queue) {
  bool any = false;
  queue.prefetch.take_back([&](const Client& client) {
    any = true;
    note_taken(queue.table, client);
  });
  queue.table.take_back_ahead();
  if (!any) return;
  Port port{context_, queue.grant()};
  queue.table.settle(port);
}

// Returns true if something of it was taken meanwhile.
bool QueueHost::lend_ahead(Hosted& queue) noexcept {
  if (queue.prefetch.empty()) return false;
  bool more = false;  // could be lent
  queue.table.lend_ahead([&](const LentRef& item, std::uint64_t number) {
    if (!item->descriptor.tensors.empty() || item->bytes.size() > link::PrefetchSlot::kMostBytes)
      return false;
    more = !queue.prefetch.has_room();
    if (!more) queue.prefetch.lend(item->bytes, number);
    return !more;
  });
  std::optional<std::uint64_t> left;  // unless nothing waits for what becomes of them
  if (queue.table.waits_for_takes())
    left = queue.table.lent_ahead();
  else if (more)
    left = queue.prefetch.half();
  return queue.prefetch.wake_when_left(left, more);
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

void QueueHost::on_wake(const link::QueueWake& woken) {
  const auto found = queues_.find(woken.queue.number);
  if (found == queues_.end()) return;
  found->second.prefetch.woken();
  const Touch touch(*this, found->second);
}

void QueueHost::on_prefetch(const Client& from, const link::Prefetch& asked) {
  Hosted& queue = find(asked.queue);
  if (queue.mirror || from->peer_memory()->channel->is_loop_back())
    throw Error(Code::kUnsupported, "each item of this queue is asked for");
  const Touch touch(*this, queue);
  queue.table.expect_from(from);
  PeerSession::Prefetch joined = queue.prefetch.join(from);
  std::vector<platform::Fd> fds;
  fds.push_back(std::move(joined.ring));
  from->peer_memory()->channel->send(link::PrefetchRing{asked.request, joined.taker},
                                     std::move(fds));
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
  const std::uint64_t bytes = item->payload_bytes();
  Port port{context_, queue->grant()};
  return queue->table.put_now(port, std::move(item), bytes);
}

std::optional<std::uint64_t> QueueHost::take_now(const link::QueueName& name,
                                                 const std::function<bool(LentSample&)>& read,
                                                 bool& none_left) {
  Hosted* const queue = find_for_own(name);
  if (queue == nullptr) return std::nullopt;
  if (queue->table.items() == 0 && !queue->rings.any_waits())
    return nothing_to_take(*queue, none_left);
  const Touch touch(*this, *queue);
  Port port{context_, queue->grant()};
  const auto read_it = [&](const LentRef& item) { return read(*item); };
  bool lost = false;  // a getter has taken it meanwhile
  const auto take_back = [&] {
    lost = !queue->prefetch.take_back_first();
    return !lost;
  };
  std::uint64_t number = 0;
  do {
    if (std::exchange(lost, false)) collect_taken(*queue);
    number = queue->table.take_now(port, own_, read_it, take_back);
  } while (lost);
  if (number == 0) return nothing_to_take(*queue, none_left);
  none_left = queue->table.items() == 0 && !queue->table.is_shut_down();
  return queue->options.redeliver ? number : 0;
}

std::nullopt_t QueueHost::nothing_to_take(Hosted& queue, bool& none_left) {
  none_left = queue.table.items() == 0 && !queue.table.is_shut_down();
  (void)queue.table.finish_with_taken(own_);  // as a GET does, also one in vain
  return std::nullopt;
}

RingsToSleepOn QueueHost::rings_to_sleep_on(const link::QueueName& name) {
  Hosted* const queue = find_for_own(name);
  if (queue == nullptr || queue->table.waiting_gets() == 0) return {};
  for (const auto& [number, hosted] : queues_)
    if (!hosted.mirror && hosted.table.has_offers()) return {};  // TAKE comes by message
  return {queue->rings.to_sleep_on(), &looking_again_};
}

void QueueHost::look_again(const link::QueueName& name) {
  if (Hosted* const queue = find_for_own(name)) const Touch touch(*this, *queue);
}

}  // namespace tensorbus::bus
