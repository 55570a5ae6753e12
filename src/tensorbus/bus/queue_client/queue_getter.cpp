#include "tensorbus/bus/queue_client/queue_getter.hpp"

#include <new>
#include <utility>
#include <variant>

#include "tensorbus/bus/session/lent_sample.hpp"
#include "tensorbus/bus/session/queue_requests.hpp"
#include "tensorbus/bus/subscribe/sample_data.hpp"
#include "tensorbus/link/ring/message_lease_source.hpp"

namespace tensorbus::bus {
namespace {

constexpr std::uint32_t kAsksBefore = 2;  // a process that gets one item needs no ring

// An item that was read but not yet acquired: another getter may have acquired it with its lease.
class ReadItem {
 public:
  ReadItem() = default;
  ~ReadItem() { forget(); }
  ReadItem(const ReadItem&) = delete;
  ReadItem& operator=(const ReadItem&) = delete;

  void hold(const LentRef& item) { item_ = item; }
  void forget() noexcept {
    if (item_ && item_->lease) item_->lease->forget();
    item_.reset();
  }
  // Enters the lease of the acquired item, so that the item can be passed on without a copy.
  // Without memory for the entry, the item is copied when it is passed on.
  void acquired(const Sample& sample) noexcept {
    const auto lease = item_ && item_->lease ? SampleData::lease_of(sample) : nullptr;
    const LentRef item = std::exchange(item_, nullptr);
    if (!lease) return;
    item->lender->show();
    try {
      item->lender->enter(*lease);
    } catch (const std::bad_alloc&) {
    }
  }

 private:
  LentRef item_;
};

}  // namespace

// Outside the server's process, polling helps if the server's process itself puts, or is awake.
void QueueGetter::asked(std::chrono::nanoseconds waited) {
  spin_.slept(waited);
  if (address_.server == participant_.self) return;
  if (asked_.fetch_add(1, std::memory_order_relaxed) + 1 < kAsksBefore) return;
  {
    const platform::MutexLock lock(mutex_);
    if (state_ != State::kNone) return;
    state_ = State::kAsked;
  }
  ask();
}

void QueueGetter::ask() {
  participant_.run_or_post([self = shared_from_this()](ParticipantContext& context) {
    context.reach(
        self->address_.server, [self, &context](const std::shared_ptr<PeerSession>& server) {
          if (!server) return self->set(State::kNone);
          const auto open = [self, weak = std::weak_ptr(server),
                             &context](PeerSession::Answer& answer) {
            const auto session = weak.lock();
            if (!session || session->ended()) return self->set(State::kNone);
            auto* const joined = std::get_if<PeerSession::JoinedRing>(&answer);
            if (joined == nullptr) return self->set(State::kNever);
            try {
              self->set(State::kOpen, std::make_unique<Ring>(std::move(*joined), session, context));
            } catch (const std::exception&) {  // no memory: items are requested
              self->set(State::kNever);
            }
          };
          server->join_get_ring(self->address_.queue, open);
        });
  });
}

QueueGetter::Ring::Ring(PeerSession::JoinedRing joined, const std::shared_ptr<PeerSession>& with,
                        const ParticipantContext& context)
    : segment(std::move(joined.ring)),
      reader(segment, joined.taker),
      session(with),
      channel(with->peer_memory()->channel),
      lender(std::make_shared<link::MessageLeaseSource>(with->source(), with->peer_memory(),
                                                        memory::Grant::kRead, context.lent, 0)),
      leases(joined.leases),
      lent(context.lent),
      delayed(context.delayed) {}

LentRef QueueGetter::Ring::held(std::span<const std::byte> bytes, std::uint64_t position,
                                Access access) const {
  const std::uint64_t token = leases + position;
  const memory::Grant grant = grant_for(access);
  const tensor::Descriptor descriptor = tensor::Descriptor::decode(bytes);
  const memory::BorrowedSegments& mapped = lender->peer_memory()->segments_for(grant);
  for (const tensor::TensorEntry& tensor : descriptor.tensors)
    if (tensor.span.bytes() != 0 && !mapped.find(tensor.segment)) return nullptr;
  const auto from = std::make_shared<link::MessageLeaseSource>(
      lender->source(), lender->peer_memory(), grant, lent, token);
  from->hide();
  auto held = std::make_shared<LentSample>(from, bytes, token);
  held->return_by(delayed);
  return held;
}

// Destroys the old ring without the lock held.
void QueueGetter::set(State state, std::unique_ptr<Ring> ring) {
  const platform::MutexLock lock(mutex_);
  state_ = state;
  std::swap(ring_, ring);
}

void QueueGetter::close_if_session_has_ended() {
  {
    const platform::MutexLock lock(mutex_);
    if (!ring_) return;
    const auto session = ring_->session.lock();
    if (session && !session->ended()) return;
  }
  set(State::kNone);
}

bool QueueGetter::looks() {
  if (!spin_.looks()) return false;
  if (address_.server == participant_.self) return true;
  const platform::MutexLock lock(mutex_);
  return ring_ != nullptr;
}

bool QueueGetter::more() {
  const platform::MutexLock lock(mutex_);
  return ring_ && ring_->reader.more();
}

bool QueueGetter::take(Sample& item, Access access) {
  if (by_message_.any()) return false;
  const platform::MutexLock lock(mutex_);
  bool readable = false;
  while (ring_ && !readable)
    if (!take_one(item, access, readable)) return false;
  return readable;
}

// Discards malformed items. An item is malformed if the server has lent another item in its slot
// meanwhile, or if another getter has written to the slot.
bool QueueGetter::take_one(Sample& item, Access access, bool& readable) {
  if (!ring_->wake)  // sent when an item was taken, which must work without memory
    ring_->wake.emplace(link::Channel::prepare(link::QueueWake{address_.queue}));
  using Look = link::GetRingReader::Look;
  ReadItem read_item;
  const auto read = [&](std::span<const std::byte> bytes, std::uint64_t lease) {
    mutex_.assert_held();
    read_item.forget();
    readable = false;
    try {
      if (lease == 0) {
        const LentSample held(ring_->lender, bytes);
        SampleData::read_fields(item, held);
      } else {
        const LentRef held = ring_->held(bytes, lease, access);
        if (!held) return Look::kOutOfReach;
        read_item.hold(held);
        if (!SampleData::read_held(item, held, {.access = access})) return Look::kOutOfReach;
      }
      readable = true;
      return Look::kReadable;
    } catch (const Error& error) {
      if (error.code() == Code::kOutOfMemory) throw;
      return Look::kMalformed;
    }
  };
  const auto taken = ring_->reader.take(read);
  if (!taken) return readable = false;
  if (readable) read_item.acquired(item);
  if (taken->wakes) {
    ring_->channel->send(std::move(*ring_->wake));
    ring_->wake.reset();
  }
  if (readable)
    participant_.taken_items.add({address_.server, address_.queue.number}, taken->number);
  return true;
}

}  // namespace tensorbus::bus
