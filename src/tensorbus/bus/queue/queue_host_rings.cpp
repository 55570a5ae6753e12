// The part of QueueHost that puts and lends items without messages.
#include <algorithm>
#include <vector>

#include "tensorbus/bus/queue/queue_port.hpp"
#include "tensorbus/bus/session/own_memory.hpp"
#include "tensorbus/link/ring/message_lease_source.hpp"

namespace tensorbus::bus {

void QueueHost::pull(Hosted& queue) {
  collect_taken(queue);
  if (queue.rings.empty()) return;
  bool any = false;
  const auto enter_one = [&](const Client& from, const PutRings::Lender& lender,
                             const link::PutSlot& slot) {
    enter(queue, from, lender, slot);
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

// Malformed items, and items in memory that cannot be mapped, count as lost and end nothing: the
// client may be another program. If memory for bookkeeping is short, the entry stays in the ring.
void QueueHost::enter(Hosted& queue, const Client& from, const PutRings::Lender& lender,
                      const link::PutSlot& slot) {
  const std::size_t length = slot.length;
  const std::uint64_t token = slot.token;
  if (length > link::PutSlot::kMostBytes) return queue.table.count_lost();
  const auto descriptor = std::span(slot.bytes).first(length);
  if (token != 0) return enter_lent(queue, from, descriptor, token);
  try {
    auto item = std::make_shared<LentSample>(lender, descriptor);
    claim_own(queue, *item);
    const std::uint64_t bytes = item->payload_bytes();
    queue.table.enter(std::move(item), bytes);
  } catch (const Error&) {
    queue.table.count_lost();
  }
}

// The lease is not returned while its entry stays.
void QueueHost::enter_lent(Hosted& queue, const Client& from, std::span<const std::byte> descriptor,
                           std::uint64_t token) {
  LentRef item;
  try {
    item = std::make_shared<LentSample>(lender_of(*from, queue, token), descriptor, token);
    item->return_by(context_.delayed);
    claim_own(queue, *item);
    queue.table.enter(item, item->payload_bytes());
  } catch (const Error&) {
    if (!item) from->peer_memory()->channel->send(link::Return{token});
    return queue.table.count_lost();
  } catch (const std::bad_alloc&) {
    if (item) item->lease->forget();
    throw;
  }
  try {
    if (!item->is_of_sender()) item->let_go_of_sender(queue.grant(), context_.lent);
  } catch (const std::bad_alloc&) {  // it is returned later
  }
}

// Keeps memory of this participant that a client hands back, as a lease of it would.
void QueueHost::claim_own(Hosted& queue, LentSample& item) {
  const std::vector<Id>& owners = item.descriptor.owners;
  if (owners.empty()) return;
  const auto is_other = [&](const Id& owner) { return owner != context_.self; };
  if (std::ranges::any_of(owners, is_other))
    throw Error(Code::kProtocol, "an item of a ring: memory of a third participant");
  std::vector<link::BlockName> names;
  for (const TensorEntry& tensor : item.descriptor.tensors) {
    const ByteSpan span = span_of(tensor.layout);
    if (tensor.owner == 0 || span.bytes() == 0) continue;
    const std::uint64_t first = tensor.offset + static_cast<std::uint64_t>(span.begin);
    names.push_back({tensor.segment, first, tensor.generation});
  }
  const PutRings::Lender lender = own_lender(queue);
  auto lease = std::make_shared<link::Lease>(lender, 0);
  lease->keep(own_memory(context_, names, queue.grant()));
  item.claimed.lenders.assign(owners.size(), lender);
  item.claimed.leases.push_back(std::move(lease));
}

// Returns a lender with the mappings of this participant's own memory that its connection with
// itself has made. Before that connection exists, own memory can be lent but not read here.
PutRings::Lender QueueHost::own_lender(Hosted& queue) {
  if (queue.own_lender) return queue.own_lender;
  if (const Client here = own_ ? own_session(context_) : nullptr)
    return queue.own_lender = lender_of(*here, queue);
  auto nothing_mapped = std::make_shared<link::PeerMemory>();
  nothing_mapped->of_this_process = true;
  const link::Source self{context_.self, 0, {}};
  return std::make_shared<link::MessageLeaseSource>(std::make_shared<const link::Source>(self),
                                                    std::move(nothing_mapped), queue.grant(),
                                                    context_.lent, 0);
}

PutRings::Lender QueueHost::lender_of(const PeerSession& client, const Hosted& queue,
                                      std::uint64_t token) const {
  return std::make_shared<link::MessageLeaseSource>(client.source(), client.peer_memory(),
                                                    queue.grant(), context_.lent, token);
}

// The second pull() leaves no entry because of its time.
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
  queue.prefetch.collect([&](const Client& client, Prefetch::Lease lease) {
    any = true;
    note_taken(queue.table, client, std::move(lease));
  });
  if (!any) return;
  Port port{context_, queue.grant()};
  queue.table.settle(port);
}

void QueueHost::note_taken(Table& table, const Client& client, Prefetch::Lease lease) noexcept {
  if (!client) return table.lose_ahead();
  if (lease.issued) client->mark_taken(lease.token, std::move(lease.issued));
  table.take_ahead(client);
}

void QueueHost::collect_all_taken() {
  for (auto& [number, hosted] : queues_)
    if (!hosted.mirror) collect_taken(hosted);
}

void QueueHost::take_back_ahead(Hosted& queue) {
  bool any = false;
  queue.prefetch.take_back([&](const Client& client, Prefetch::Lease lease) {
    any = true;
    note_taken(queue.table, client, std::move(lease));
  });
  queue.table.take_back_ahead();
  if (!any) return;
  Port port{context_, queue.grant()};
  queue.table.settle(port);
}

// Returns true if lent items were taken in the meantime.
bool QueueHost::lend_ahead(Hosted& queue) {
  if (queue.prefetch.empty()) return false;
  bool more = false;  // more items could be lent
  queue.table.lend_ahead([&](const LentRef& item, std::uint64_t number) {
    more = !queue.prefetch.has_room();
    return !more && lend_ahead(queue, item, number);
  });
  std::optional<std::uint64_t> left;  // empty: no getter needs to wake the server
  if (queue.table.waits_for_takes())
    left = queue.table.lent_ahead();
  else if (more)
    left = queue.prefetch.half();
  return queue.prefetch.wake_when_left(left, more);
}

// Returns false if the item must be requested.
bool QueueHost::lend_ahead(Hosted& queue, const LentRef& item, std::uint64_t number) {
  constexpr std::size_t kMost = link::PrefetchSlot::kMostBytes;
  if (item->descriptor.tensors.empty()) {
    if (item->bytes.size() > kMost) return false;
    queue.prefetch.lend(item->bytes, number, nullptr);
    return true;
  }
  try {
    auto offer = reoffer_own(context_, item, kMost);
    if (!offer || !offer->issued) return false;
    queue.prefetch.lend(offer->descriptor, number, std::move(offer->issued));
    return true;
  } catch (const Error& error) {
    if (error.code() == Code::kOutOfMemory) throw;
    return false;  // a request for this item gets the error
  }
}

void QueueHost::on_ring(const Client& from, const link::QueueRing& asked, platform::Fd ring) {
  Hosted& queue = find(asked.queue);
  if (queue.mirror || queue.options.max_bytes != 0)
    throw Error(Code::kUnsupported, "each item of this queue needs a request");
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
    throw Error(Code::kUnsupported, "each item of this queue needs a request");
  const Touch touch(*this, queue);
  queue.table.expect_from(from);
  PeerSession::Prefetch joined = queue.prefetch.join(from);
  std::vector<platform::Fd> fds;
  fds.push_back(std::move(joined.ring));
  from->peer_memory()->channel->send(link::PrefetchRing{asked.request, joined.taker, joined.leases},
                                     std::move(fds));
}

QueueHost::Hosted* QueueHost::find_for_own(const link::QueueName& name) noexcept {
  const auto found = queues_.find(name.number);
  const bool is_here = found != queues_.end() && found->second.key == name.key;
  return own_ && is_here && !found->second.mirror ? &found->second : nullptr;
}

bool QueueHost::put_now(const link::QueueName& name, std::span<const std::byte> descriptor,
                        const link::PublishedRef& own) {
  Hosted* const queue = find_for_own(name);
  if (queue == nullptr || queue->table.is_shut_down()) return false;
  const Touch touch(*this, *queue);
  if (!queue->table.has_room()) pull_all(*queue);
  auto item = std::make_shared<LentSample>(own_lender(*queue), descriptor, 0, own);
  const std::uint64_t bytes = item->payload_bytes();
  Port port{context_, queue->grant()};
  return queue->table.put_now(port, std::move(item), bytes);
}

std::optional<std::uint64_t> QueueHost::take_now(const link::QueueName& name, const ReadItem& read,
                                                 bool& none_left) {
  Hosted* const queue = find_for_own(name);
  if (queue == nullptr) return std::nullopt;
  if (queue->table.items() == 0 && !queue->rings.any_waits())
    return nothing_to_take(*queue, none_left);
  const Touch touch(*this, *queue);
  Port port{context_, queue->grant()};
  bool lost = false;  // a getter has taken it in the meantime
  const auto take_back = [&] {
    lost = !queue->prefetch.take_back_first();
    return !lost;
  };
  std::uint64_t number = 0;
  do {
    if (std::exchange(lost, false)) collect_taken(*queue);
    number = queue->table.take_now(port, own_, read, take_back);
  } while (lost);
  if (number == 0) return nothing_to_take(*queue, none_left);
  none_left = queue->table.items() == 0 && !queue->table.is_shut_down();
  return queue->options.redeliver ? number : 0;
}

std::nullopt_t QueueHost::nothing_to_take(Hosted& queue, bool& none_left) {
  none_left = queue.table.items() == 0 && !queue.table.is_shut_down();
  (void)queue.table.finish_with_taken(own_);  // like a GET, even a failed one
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
