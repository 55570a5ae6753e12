#include "tensorbus/bus/queue_client/queue_prefetch.hpp"

#include <utility>
#include <variant>

#include "tensorbus/bus/session/lent_sample.hpp"
#include "tensorbus/bus/session/queue_requests.hpp"
#include "tensorbus/bus/subscribe/sample_data.hpp"
#include "tensorbus/link/ring/message_lease_source.hpp"

namespace tensorbus::bus {
namespace {

constexpr std::uint32_t kAsksBefore = 2;  // a process that gets one item needs no ring

}  // namespace

// Elsewhere than in the host's process looking is of use if the host itself puts, or is awake.
void QueuePrefetch::asked(std::chrono::nanoseconds waited) {
  spin_.slept(waited);
  if (address_.host == core_.id()) return;
  if (asked_.fetch_add(1, std::memory_order_relaxed) + 1 < kAsksBefore) return;
  {
    const platform::MutexLock lock(mutex_);
    if (state_ != State::kNone) return;
    state_ = State::kAsked;
  }
  ask();
}

void QueuePrefetch::ask() {
  core_.run_or_post([self = shared_from_this()](ParticipantContext& context) {
    context.reach(self->address_.host, [self, &context](const std::shared_ptr<PeerSession>& host) {
      if (!host) return self->set(State::kNone);
      const auto open = [self, weak = std::weak_ptr(host), &context](PeerSession::Answer& answer) {
        const auto session = weak.lock();
        if (!session || session->ended()) return self->set(State::kNone);
        auto* const joined = std::get_if<PeerSession::Prefetch>(&answer);
        if (joined == nullptr) return self->set(State::kNever);
        try {
          self->set(State::kOpen,
                    std::make_unique<Ring>(std::move(*joined), session, context.lent));
        } catch (const std::exception&) {  // no memory: items are asked for
          self->set(State::kNever);
        }
      };
      host->prefetch(self->address_.queue, open);
    });
  });
}

QueuePrefetch::Ring::Ring(PeerSession::Prefetch joined, const std::shared_ptr<PeerSession>& with,
                          const std::shared_ptr<link::LeaseIndex>& lent)
    : segment(std::move(joined.ring)),
      reader(segment, joined.taker),
      session(with),
      channel(with->peer_memory()->channel),
      lender(std::make_shared<link::MessageLeaseSource>(with->source(), with->peer_memory(),
                                                        memory::Grant::kRead, lent, 0)) {}

// What was there is destroyed without the lock.
void QueuePrefetch::set(State state, std::unique_ptr<Ring> ring) {
  const platform::MutexLock lock(mutex_);
  state_ = state;
  std::swap(ring_, ring);
}

void QueuePrefetch::close_if_session_has_ended() {
  {
    const platform::MutexLock lock(mutex_);
    if (!ring_) return;
    const auto session = ring_->session.lock();
    if (session && !session->ended()) return;
  }
  set(State::kNone);
}

bool QueuePrefetch::looks() {
  if (!spin_.looks()) return false;
  if (address_.host == core_.id()) return true;
  const platform::MutexLock lock(mutex_);
  return ring_ != nullptr;
}

bool QueuePrefetch::more() {
  const platform::MutexLock lock(mutex_);
  return ring_ && ring_->reader.more();
}

bool QueuePrefetch::take(Sample& item) {
  if (by_message_.any()) return false;
  const platform::MutexLock lock(mutex_);
  bool readable = false;
  while (ring_ && !readable)
    if (!take_one(item, readable)) return false;
  return readable;
}

// What is malformed is nobody's: the host has lent something else, or another getter wrote to it.
bool QueuePrefetch::take_one(Sample& item, bool& readable) {
  if (!ring_->wake)  // it is sent when an item was taken, which must work without memory
    ring_->wake.emplace(link::Channel::prepare(link::QueueWake{address_.queue}));
  const auto read = [&](std::span<const std::byte> bytes) {
    mutex_.assert_held();
    try {
      LentSample held(ring_->lender, bytes);
      SampleData::read_fields(item, held);
      return readable = true;
    } catch (const Error& error) {
      if (error.code() == Code::kOutOfMemory) throw;
      return readable = false;
    }
  };
  const auto taken = ring_->reader.take(read);
  if (!taken) return false;
  if (taken->wakes) {
    ring_->channel->send(std::move(*ring_->wake));
    ring_->wake.reset();
  }
  if (readable) core_.taken_items().add({address_.host, address_.queue.number}, taken->number);
  return true;
}

}  // namespace tensorbus::bus
