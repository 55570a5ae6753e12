#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "tensorbus/bus/queue_client/queue_request.hpp"
#include "tensorbus/bus/queue_client/under_way.hpp"
#include "tensorbus/bus/session/lent_sample.hpp"
#include "tensorbus/bus/session/participant_context.hpp"
#include "tensorbus/bus/session/peer_session.hpp"
#include "tensorbus/bus/subscribe/sample.hpp"
#include "tensorbus/link/ring/get_ring.hpp"
#include "tensorbus/platform/mutex.hpp"
#include "tensorbus/platform/waiting/adaptive_spin.hpp"

namespace tensorbus::bus {

// Takes items that the queue's server, in another process, has lent through the get ring
// (get_ring.hpp). Thread-safe.
class QueueGetter : public std::enable_shared_from_this<QueueGetter> {
 public:
  QueueGetter(ParticipantContext& participant, const QueueAddress& address)
      : participant_(participant),
        address_(address),
        spin_(address.server == participant.self ? 1 : 16) {}
  QueueGetter(const QueueGetter&) = delete;
  QueueGetter& operator=(const QueueGetter&) = delete;

  // Takes the oldest item, which then belongs to this process. Returns false if none is lent, or
  // while a GET is under way: the server would regard the GET as the later request.
  bool take(Sample& item, Access access);
  // Counts an item that came by request after the time `waited`. Requests the ring after the second
  // of these items.
  void asked(std::chrono::nanoseconds waited);
  // Called before a GET is sent.
  std::shared_ptr<UnderWay::Request> begin_by_message() const { return by_message_.begin(); }
  // Unmaps the ring if its session has ended. On the event loop only.
  void close_if_session_has_ended();

  // Returns true if more items wait than were lent.
  bool more();

  // Returns true if the next item is likely to come within microseconds, as the last ones did: then
  // a getter polls before it sends a request and sleeps.
  bool looks();
  // Reports whether polling found an item.
  void looked(bool found) noexcept { spin_.looked(found); }

 private:
  enum class State : std::uint8_t { kNone, kAsked, kOpen, kNever };
  struct Ring {
    Ring(PeerSession::JoinedRing joined, const std::shared_ptr<PeerSession>& with,
         const ParticipantContext& context);
    // Returns the item at this position, which has a lease; null if a part of it lies in memory
    // that is not mapped here.
    LentRef held(std::span<const std::byte> bytes, std::uint64_t position, Access access) const;

    link::GetRingSegment segment;
    link::GetRingReader reader;
    std::weak_ptr<PeerSession> session;
    std::shared_ptr<link::Channel> channel;
    std::shared_ptr<link::MessageLeaseSource> lender;  // for items without a lease
    const std::uint64_t leases;                        // the token of position 0
    std::shared_ptr<link::LeaseIndex> lent;
    std::shared_ptr<link::DelayedSender> delayed;
    std::optional<link::Channel::Prepared> wake{};
  };

  void ask();
  void set(State state, std::unique_ptr<Ring> ring = nullptr);
  // Returns false if no item was taken. Sets `readable` if the taken item can be read.
  bool take_one(Sample& item, Access access, bool& readable) TB_REQUIRES(mutex_);

  ParticipantContext& participant_;
  const QueueAddress address_;
  const UnderWay by_message_;
  platform::AdaptiveSpin spin_;
  std::atomic<std::uint32_t> asked_ = 0;  // number of items requested: a hint
  platform::Mutex mutex_;
  State state_ TB_GUARDED_BY(mutex_) = State::kNone;
  std::unique_ptr<Ring> ring_ TB_GUARDED_BY(mutex_);  // set while the ring is open
};

}  // namespace tensorbus::bus
