#pragma once

#include <cstddef>
#include <list>
#include <memory>

#include "tensorbus/bus/queue_client/queue_getter.hpp"
#include "tensorbus/bus/queue_client/queue_putter.hpp"
#include "tensorbus/platform/mutex.hpp"

namespace tensorbus::bus {

// A participant's ways to put items into one queue, and to get items from it, without a request.
struct QueueRings {
  QueueRings(ParticipantContext& participant, const QueueAddress& of)
      : address(of),
        putter(std::make_shared<QueuePutter>(participant, of)),
        getter(std::make_shared<QueueGetter>(participant, of)) {}

  const QueueAddress address;
  const std::shared_ptr<QueuePutter> putter;
  const std::shared_ptr<QueueGetter> getter;
};

// The QueueRings of a participant. Objects of the same queue share one QueueRings, also if one
// object is closed before the next is made: all QueueRings in use are kept, and those used last.
// Thread-safe.
class KeptQueueRings {
 public:
  explicit KeptQueueRings(ParticipantContext& participant) : participant_(participant) {}

  std::shared_ptr<const QueueRings> of(const QueueAddress& address);
  // Called at the end of the participant: see QueuePutter::end().
  void end() noexcept;
  // Called when a session with a peer has ended. On the event loop only.
  void on_session_end();

 private:
  static constexpr std::size_t kMaxKept = 64;

  ParticipantContext& participant_;
  platform::Mutex mutex_;
  std::list<std::shared_ptr<const QueueRings>> kept_ TB_GUARDED_BY(mutex_);  // last used first
};

}  // namespace tensorbus::bus
