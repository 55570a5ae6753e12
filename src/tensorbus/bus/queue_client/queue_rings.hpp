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
  QueueRings(ParticipantCore& core, const QueueAddress& of)
      : address(of),
        putter(std::make_shared<QueuePutter>(core, of)),
        getter(std::make_shared<QueueGetter>(core, of)) {}

  const QueueAddress address;
  const std::shared_ptr<QueuePutter> putter;
  const std::shared_ptr<QueueGetter> getter;
};

// The QueueRings of a participant. Objects of the same queue share one QueueRings, even one after
// the other. Those in use and the latest are kept. Thread-safe.
class KeptQueueRings final : public ParticipantCore::Kept {
 public:
  explicit KeptQueueRings(ParticipantCore& core) : core_(core) {}

  std::shared_ptr<const QueueRings> of(const QueueAddress& address);
  void on_session_end() override;

 private:
  static constexpr std::size_t kMaxKept = 64;

  ParticipantCore& core_;
  platform::Mutex mutex_;
  std::list<std::shared_ptr<const QueueRings>> kept_ TB_GUARDED_BY(mutex_);  // latest first
};

}  // namespace tensorbus::bus
