#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "tensorbus/bus/participant/participant_core.hpp"
#include "tensorbus/bus/queue_client/queue_request.hpp"
#include "tensorbus/bus/queue_client/under_way.hpp"
#include "tensorbus/bus/session/peer_session.hpp"
#include "tensorbus/bus/subscribe/sample.hpp"
#include "tensorbus/link/ring/prefetch_ring.hpp"
#include "tensorbus/platform/mutex.hpp"

namespace tensorbus::bus {

// Takes items that the host of a queue, another process, has lent ahead (prefetch_ring.hpp).
// Thread-safe.
class QueuePrefetch : public std::enable_shared_from_this<QueuePrefetch> {
 public:
  QueuePrefetch(ParticipantCore& core, const QueueAddress& address)
      : core_(core), address_(address) {}
  QueuePrefetch(const QueuePrefetch&) = delete;
  QueuePrefetch& operator=(const QueuePrefetch&) = delete;

  // Takes the oldest item; it is this process's from then on. Returns false if none is lent, or
  // while a GET is under way: the host would take that for the later one.
  bool take(Sample& item);
  // Notes that an item had to be asked for, and came `soon` or not. Asks for the ring, if such
  // items keep coming.
  void asked(bool soon);
  // Called before a GET is sent.
  std::shared_ptr<UnderWay::Request> begin_by_message() const { return by_message_.begin(); }
  // Unmaps the ring that nobody fills any more.
  void close_if_host_is_gone();

  // Returns true if more items wait than were lent.
  bool more();

  // Whether the next item is likely to come within microseconds, as the last ones did: then a
  // getter looks before it asks and sleeps.
  bool looks();
  // Looking was of use, or not.
  void looked(bool found) noexcept;

 private:
  enum class Ring : std::uint8_t { kNone, kAsked, kOpen, kNever };

  void ask();
  void open(PeerSession::Prefetch joined, const PeerSession& host,
            const std::shared_ptr<link::LeaseIndex>& lent);
  void set(Ring ring);
  // Returns false if no item was taken. Sets `spoilt` if nobody can read the one that was.
  bool take_one(Sample& item, bool& spoilt) TB_REQUIRES(mutex_);

  ParticipantCore& core_;
  const QueueAddress address_;
  const UnderWay by_message_;
  // Hints, which order nothing: how many items to ask for before it looks again, and how many were
  // asked for.
  std::atomic<std::uint32_t> rest_ = 0;
  std::atomic<std::uint32_t> asked_ = 0;
  platform::Mutex mutex_;
  Ring ring_ TB_GUARDED_BY(mutex_) = Ring::kNone;
  std::unique_ptr<link::PrefetchSegment> segment_ TB_GUARDED_BY(mutex_);
  std::optional<link::PrefetchReader> reader_ TB_GUARDED_BY(mutex_);
  std::weak_ptr<link::PeerMemory> host_ TB_GUARDED_BY(mutex_);       // of the connection
  std::shared_ptr<link::LeaseSource> lender_ TB_GUARDED_BY(mutex_);  // of items without a lease
};

}  // namespace tensorbus::bus
