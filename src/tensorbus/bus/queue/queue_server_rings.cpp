// The part of QueueServer for items that are put and taken without messages.
#include <algorithm>
#include <vector>

#include "tensorbus/bus/queue/queue_port.hpp"
#include "tensorbus/bus/session/own_memory.hpp"
#include "tensorbus/link/ring/message_lease_source.hpp"

namespace tensorbus::bus {

void QueueServer::pull(ServedQueue& queue) {
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

// Malformed items count as lost, and the connection continues. In a shortage, of memory for records
// or of room for a mapping, the entry stays in the ring.
void QueueServer::enter(ServedQueue& queue, const Client& from, const PutRings::Lender& lender,
                        const link::PutSlot& slot) {
  const std::size_t length = slot.length;
  const std::uint64_t token = slot.token;
  if (length > link::PutSlot::kMaxBytes) return queue.table.count_lost();
  const auto descriptor = std::span(slot.bytes).first(length);
  if (token != 0) return enter_lent(queue, from, descriptor, token);
  try {
    auto item = std::make_shared<LentSample>(lender, descriptor);
    acquire_own(queue, *item);
    const std::uint64_t bytes = item->payload_bytes();
    queue.table.enter(std::move(item), bytes);
  } catch (const Error& error) {
    if (error.code() == Code::kOutOfMemory) throw;
    queue.table.count_lost();
  }
}

// In a shortage the entry stays in the ring, and its lease is not returned.
void QueueServer::enter_lent(ServedQueue& queue, const Client& from,
                             std::span<const std::byte> descriptor, std::uint64_t token) {
  LentRef item;
  try {
    item = std::make_shared<LentSample>(lender_of(*from, queue, token), descriptor, token);
    item->return_by(context_.delayed);
    acquire_own(queue, *item);
    queue.table.enter(item, item->payload_bytes());
  } catch (const Error& error) {
    if (error.code() == Code::kOutOfMemory) {
      if (item) item->lease->forget();
      throw;
    }
    if (!item) from->peer_memory()->channel->send(link::Return{token});
    return queue.table.count_lost();
  } catch (const std::bad_alloc&) {
    if (item) item->lease->forget();
    throw;
  }
  try {
    if (!item->is_of_sender()) item->let_go_of_sender(queue.grant(), context_.lent);
  } catch (const std::bad_alloc&) {  // the sender's lease is returned later
  }
}

// Keeps memory of this participant that a client passes back, as a lease on it does.
void QueueServer::acquire_own(ServedQueue& queue, LentSample& item) {
  const std::vector<Id>& owners = item.descriptor.owners;
  if (owners.empty()) return;
  const auto is_other = [&](const Id& owner) { return owner != context_.self; };
  if (std::ranges::any_of(owners, is_other))
    throw Error(Code::kProtocol, "an item of a ring: memory of a third participant");
  std::vector<link::BlockName> names;
  for (const tensor::TensorEntry& tensor : item.descriptor.tensors) {
    const ByteSpan span = span_of(tensor.layout);
    if (tensor.owner == 0 || span.bytes() == 0) continue;
    const std::uint64_t first = tensor.offset + static_cast<std::uint64_t>(span.begin);
    names.push_back({tensor.segment, first, tensor.generation});
  }
  const PutRings::Lender lender = own_lender(queue);
  auto lease = std::make_shared<link::Lease>(lender, 0);
  lease->keep(own_memory(context_, names, queue.grant()));
  item.acquired.lenders.assign(owners.size(), lender);
  item.acquired.leases.push_back(std::move(lease));
}

// Returns a lender with the mappings of this participant's own memory that its connection with
// itself has made. Before that connection exists, own memory can be lent but not read here.
PutRings::Lender QueueServer::own_lender(ServedQueue& queue) {
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

PutRings::Lender QueueServer::lender_of(const PeerSession& client, const ServedQueue& queue,
                                        std::uint64_t token) const {
  return std::make_shared<link::MessageLeaseSource>(client.source(), client.peer_memory(),
                                                    queue.grant(), context_.lent, token);
}

// The second pull() enters the entries that the first one left because of their time.
void QueueServer::pull_all(ServedQueue& queue) {
  queue.rings.take_back();
  pull(queue);
  pull(queue);
}

void QueueServer::look_after(ServedQueue& queue) noexcept {
  if (queue.rings.empty() && queue.get_ring.empty()) return;
  constexpr int kMaxRounds = 4;
  try {
    for (int i = 0; i < kMaxRounds; ++i) {
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

void QueueServer::collect_taken(ServedQueue& queue) {
  bool any = false;
  queue.get_ring.collect([&](const Client& client, GetRing::Lease lease) {
    any = true;
    note_taken(queue.table, client, std::move(lease));
  });
  if (!any) return;
  Port port{context_, queue.grant()};
  queue.table.settle(port);
}

void QueueServer::note_taken(Table& table, const Client& client, GetRing::Lease lease) noexcept {
  if (!client) return table.lose_ahead();
  if (lease.issued) client->mark_taken(lease.token, std::move(lease.issued));
  table.take_ahead(client);
}

void QueueServer::collect_all_taken() {
  for (auto& [number, served] : queues_)
    if (!served.mirror) collect_taken(served);
}

void QueueServer::take_back_ahead(ServedQueue& queue) {
  bool any = false;
  queue.get_ring.take_back([&](const Client& client, GetRing::Lease lease) {
    any = true;
    note_taken(queue.table, client, std::move(lease));
  });
  queue.table.take_back_ahead();
  if (!any) return;
  Port port{context_, queue.grant()};
  queue.table.settle(port);
}

// Returns true if lent items were taken in the meantime.
bool QueueServer::lend_ahead(ServedQueue& queue) {
  if (queue.get_ring.empty()) return false;
  bool more = false;  // more items could be lent if the ring had room
  queue.table.lend_ahead([&](const LentRef& item, std::uint64_t number) {
    more = !queue.get_ring.has_room();
    return !more && lend_ahead(queue, item, number);
  });
  std::optional<std::uint64_t> left;  // empty: no getter needs to wake the server
  if (queue.table.waits_for_takes())
    left = queue.table.lent_ahead();
  else if (more)
    left = queue.get_ring.half();
  return queue.get_ring.wake_when_left(left, more);
}

// Returns false if a client must request the item.
bool QueueServer::lend_ahead(ServedQueue& queue, const LentRef& item, std::uint64_t number) {
  constexpr std::size_t kMax = link::GetRingSlot::kMaxBytes;
  if (item->descriptor.tensors.empty()) {
    if (item->bytes.size() > kMax) return false;
    queue.get_ring.lend(item->bytes, number, nullptr);
    return true;
  }
  try {
    auto offer = reoffer_own(context_, item, kMax);
    if (!offer || !offer->issued) return false;
    queue.get_ring.lend(offer->descriptor, number, std::move(offer->issued));
    return true;
  } catch (const Error& error) {
    if (error.code() == Code::kOutOfMemory) throw;
    return false;  // a request for this item gets the error
  }
}

void QueueServer::on_ring(const Client& from, const link::QueueRing& asked, platform::Fd ring) {
  ServedQueue& queue = find(asked.queue);
  if (queue.mirror || queue.options.max_bytes != 0)
    throw Error(Code::kUnsupported, "each item of this queue needs a request");
  const Touch touch(*this, queue);
  queue.rings.add(from, lender_of(*from, queue), std::move(ring));
  look_after(queue);
  from->reply({.request = asked.request});
}

void QueueServer::on_wake(const link::QueueWake& woken) {
  const auto found = queues_.find(woken.queue.number);
  if (found == queues_.end()) return;
  found->second.get_ring.woken();
  const Touch touch(*this, found->second);
  pull(found->second);  // leaves no entry because of its time: the client may end
}

void QueueServer::on_join_get_ring(const Client& from, const link::JoinGetRing& asked) {
  ServedQueue& queue = find(asked.queue);
  if (queue.mirror || from->peer_memory()->channel->is_loop_back())
    throw Error(Code::kUnsupported, "each item of this queue needs a request");
  const Touch touch(*this, queue);
  queue.table.expect_from(from);
  PeerSession::JoinedRing joined = queue.get_ring.join(from);
  std::vector<platform::Fd> fds;
  fds.push_back(std::move(joined.ring));
  from->peer_memory()->channel->send(link::GetRing{asked.request, joined.taker, joined.leases},
                                     std::move(fds));
}

QueueServer::ServedQueue* QueueServer::find_for_own(const link::QueueName& name) noexcept {
  const auto found = queues_.find(name.number);
  const bool is_here = found != queues_.end() && found->second.key == name.key;
  return own_ && is_here && !found->second.mirror ? &found->second : nullptr;
}

bool QueueServer::put_now(const link::QueueName& name, std::span<const std::byte> descriptor,
                          const link::PublishedRef& own) {
  ServedQueue* const queue = find_for_own(name);
  if (queue == nullptr || queue->table.is_shut_down()) return false;
  const Touch touch(*this, *queue);
  if (!queue->table.has_room()) pull_all(*queue);
  auto item = std::make_shared<LentSample>(own_lender(*queue), descriptor, 0, own);
  const std::uint64_t bytes = item->payload_bytes();
  Port port{context_, queue->grant()};
  return queue->table.put_now(port, std::move(item), bytes);
}

std::optional<std::uint64_t> QueueServer::take_now(const link::QueueName& name,
                                                   const ReadItem& read, bool& none_left) {
  ServedQueue* const queue = find_for_own(name);
  if (queue == nullptr) return std::nullopt;
  if (queue->table.items() == 0 && !queue->rings.any_waits())
    return nothing_to_take(*queue, none_left);
  const Touch touch(*this, *queue);
  Port port{context_, queue->grant()};
  bool lost = false;  // a getter took the oldest item before take_back()
  const auto take_back = [&] {
    lost = !queue->get_ring.take_back_first();
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

std::nullopt_t QueueServer::nothing_to_take(ServedQueue& queue, bool& none_left) {
  none_left = queue.table.items() == 0 && !queue.table.is_shut_down();
  (void)queue.table.finish_with_taken(own_);  // as a GET does, even without an item
  return std::nullopt;
}

RingsToSleepOn QueueServer::rings_to_sleep_on(const link::QueueName& name) {
  ServedQueue* const queue = find_for_own(name);
  if (queue == nullptr || queue->table.waiting_gets() == 0) return {};
  for (const auto& [number, served] : queues_)
    if (!served.mirror && served.table.has_offers()) return {};  // TAKE comes by message
  return {queue->rings.to_sleep_on(), &looking_again_};
}

void QueueServer::look_again(const link::QueueName& name) {
  if (ServedQueue* const queue = find_for_own(name)) const Touch touch(*this, *queue);
}

}  // namespace tensorbus::bus
