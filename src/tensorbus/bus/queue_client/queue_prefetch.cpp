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
constexpr std::uint32_t kRestAfter = 16;  // items, after it has looked in vain

}  // namespace

void QueuePrefetch::looked(bool found) noexcept {
  rest_.store(found ? 0 : kRestAfter, std::memory_order_relaxed);
}

// In the host's process looking is of use whenever items come soon. Elsewhere it is only if the
// host itself puts, or is awake.
void QueuePrefetch::asked(bool soon) {
  if (address_.host == core_.id()) return rest_.store(soon ? 0 : 1, std::memory_order_relaxed);
  if (const std::uint32_t rest = rest_.load(std::memory_order_relaxed); soon && rest != 0)
    rest_.store(rest - 1, std::memory_order_relaxed);
  if (asked_.fetch_add(1, std::memory_order_relaxed) + 1 < kAsksBefore) return;
  {
    const platform::MutexLock lock(mutex_);
    if (ring_ != Ring::kNone) return;
    ring_ = Ring::kAsked;
  }
  ask();
}

void QueuePrefetch::ask() {
  core_.run_or_post([self = shared_from_this()](ParticipantContext& context) {
    context.reach(self->address_.host, [self, &context](const std::shared_ptr<PeerSession>& host) {
      if (!host) return self->set(Ring::kNone);
      host->prefetch(self->address_.queue,
                     [self, weak = std::weak_ptr(host), &context](PeerSession::Answer& answer) {
                       const auto session = weak.lock();
                       if (!session || session->ended()) return self->set(Ring::kNone);
                       try {
                         if (auto* joined = std::get_if<PeerSession::Prefetch>(&answer))
                           return self->open(std::move(*joined), *session, context.lent);
                       } catch (const Error&) {  // no memory: items are asked for
                       }
                       self->set(Ring::kNever);
                     });
    });
  });
}

void QueuePrefetch::open(PeerSession::Prefetch joined, const PeerSession& host,
                         const std::shared_ptr<link::LeaseIndex>& lent) {
  auto segment = std::make_unique<link::PrefetchSegment>(std::move(joined.ring));
  auto lender = std::make_shared<link::MessageLeaseSource>(host.source(), host.peer_memory(),
                                                           memory::Grant::kRead, lent, 0);
  const platform::MutexLock lock(mutex_);
  segment_ = std::move(segment);
  lender_ = std::move(lender);
  reader_.emplace(*segment_, joined.taker);
  host_ = host.peer_memory();
  ring_ = Ring::kOpen;
}

void QueuePrefetch::set(Ring ring) {
  const platform::MutexLock lock(mutex_);
  ring_ = ring;
}

void QueuePrefetch::close_if_host_is_gone() {
  const platform::MutexLock lock(mutex_);
  const auto host = host_.lock();
  if (!reader_ || (host && !host->is_over())) return;
  reader_.reset();
  segment_.reset();
  lender_.reset();
  host_.reset();
  ring_ = Ring::kNone;
}

bool QueuePrefetch::looks() {
  if (rest_.load(std::memory_order_relaxed) != 0) return false;
  if (address_.host == core_.id()) return true;
  const platform::MutexLock lock(mutex_);
  return reader_.has_value();
}

bool QueuePrefetch::more() {
  const platform::MutexLock lock(mutex_);
  return reader_ && reader_->more();
}

bool QueuePrefetch::take(Sample& item) {
  if (by_message_.any()) return false;
  const platform::MutexLock lock(mutex_);
  bool spoilt = true;
  while (reader_ && spoilt)
    if (!take_one(item, spoilt)) return false;
  return !spoilt;
}

// What is malformed is nobody's: the host has lent something else, or another getter wrote to it.
bool QueuePrefetch::take_one(Sample& item, bool& spoilt) {
  const auto read = [&](std::span<const std::byte> bytes) {
    mutex_.assert_held();
    try {
      LentSample held(lender_, bytes);
      SampleData::read_fields(item, held);
      spoilt = false;
    } catch (const Error& error) {
      if (error.code() == Code::kOutOfMemory) throw;
      spoilt = true;
    }
  };
  const auto taken = reader_->take(read);
  if (!taken) return false;
  if (taken->wakes)
    if (const auto host = host_.lock()) host->channel->send(link::QueueWake{address_.queue});
  if (!spoilt) core_.taken_items().add({address_.host, address_.queue.number}, taken->number);
  return true;
}

}  // namespace tensorbus::bus
