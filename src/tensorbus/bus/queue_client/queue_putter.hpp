#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <tensorbus/values/message.hpp>

#include "tensorbus/bus/publish/sample_builder.hpp"
#include "tensorbus/bus/queue_client/queue_request.hpp"
#include "tensorbus/bus/queue_client/under_way.hpp"
#include "tensorbus/bus/session/participant_context.hpp"
#include "tensorbus/bus/session/peer_session.hpp"
#include "tensorbus/link/ring/put_ring.hpp"
#include "tensorbus/platform/mutex.hpp"

namespace tensorbus::bus {

// Puts small items into one queue without a request to the queue's server: through a ring in shared
// memory (put_ring.hpp) or, if this participant is the server, in the calling thread. Thread-safe.
class QueuePutter : public std::enable_shared_from_this<QueuePutter> {
 public:
  QueuePutter(ParticipantContext& participant, const QueueAddress& address)
      : participant_(participant), address_(address) {}

  ~QueuePutter();
  QueuePutter(const QueuePutter&) = delete;
  QueuePutter& operator=(const QueuePutter&) = delete;

  const QueueAddress& address() const noexcept { return address_; }
  // Ends the ring, and has the server read its entries. Called before this participant returns
  // leases: an entry may name memory of the server that only such a lease keeps.
  void end() noexcept;
  // Unmaps the ring if no process reads it any more.
  void close_if_server_is_gone();

  // Puts items in order, up to the first item that cannot be put this way. Returns how many were
  // put.
  std::size_t put_now(std::span<const Message> items);
  // The behaviour of put_now() while the event loop runs a handler, for example a scan of the
  // domain.
  enum class IfBusy : std::uint8_t { kWait, kGiveUp };
  // Puts a prepared item whose tensors lie in segments of host memory that the queue's server has.
  // Returns false if the item cannot be put this way. Its lease is recorded in a turn of the event
  // loop.
  bool put_now(const SampleBuilder& item, IfBusy if_busy = IfBusy::kWait);
  // As put_now(), but if the ring is full and had room a moment ago, polls for room for some
  // microseconds. For callers that would wait for room.
  std::size_t put_soon(std::span<const Message> items) {
    return look_for_room([&] { return put_now(items); });
  }
  bool put_soon(const SampleBuilder& item) {
    return look_for_room([&] { return put_now(item) ? 1 : 0; }) != 0;
  }
  // Returns true if there is an open ring, even if it has no room now.
  bool has_ring();

  // Called before a put is sent by message. No item overtakes that put: put_now() puts nothing
  // until that put has ended. Offers the server a ring if there is none.
  std::shared_ptr<UnderWay::Request> begin_by_message();

 private:
  enum class Ring : std::uint8_t { kNone, kOffered, kOpen, kNever };

  std::size_t put_here(std::span<const Message> items);
  // Calls `put`. While it returns 0 because the ring is full, polls for room and calls it again.
  std::size_t look_for_room(const std::function<std::size_t()>& put);
  bool put_lent(std::span<const std::byte> descriptor, const link::PublishedRef& issued,
                memory::Grant grant);
  bool waits_for_room();
  void offer_ring();
  void open(std::shared_ptr<link::PutRingSegment> segment,
            const std::shared_ptr<PeerSession>& server);
  void set(Ring ring);
  std::shared_ptr<link::PeerMemory> living_server() TB_REQUIRES(mutex_);
  void close_ring() TB_REQUIRES(mutex_);
  void prepare_wake() TB_REQUIRES(mutex_);
  void wake_if_waiting(link::Channel& server) noexcept TB_REQUIRES(mutex_);

  ParticipantContext& participant_;
  const QueueAddress address_;
  const UnderWay by_message_;
  std::atomic<bool> looks_for_room_ = true;  // a hint: it orders no other data
  platform::Mutex mutex_;
  Ring ring_ TB_GUARDED_BY(mutex_) = Ring::kNone;
  std::shared_ptr<link::PutRingSegment> segment_ TB_GUARDED_BY(mutex_);
  std::optional<link::PutRingWriter> writer_ TB_GUARDED_BY(mutex_);
  std::weak_ptr<link::PeerMemory> server_ TB_GUARDED_BY(mutex_);  // of the connection to the server
  std::weak_ptr<PeerSession> session_ TB_GUARDED_BY(mutex_);
  // QUEUE_WAKE, prepared in advance: sending it must not fail after an item was put.
  std::optional<link::Channel::Prepared> wake_ TB_GUARDED_BY(mutex_);
};

}  // namespace tensorbus::bus
