#pragma once

#include <cstddef>
#include <list>
#include <memory>

#include "tensorbus/bus/queue_client/queue_putter.hpp"
#include "tensorbus/platform/mutex.hpp"

namespace tensorbus::bus {

// The QueuePutters of a participant: queue objects of one queue share one, and so one ring, also if
// one object comes after the other. The latest are kept. Thread-safe.
class QueuePutters final : public ParticipantCore::Kept {
 public:
  explicit QueuePutters(ParticipantCore& core) : core_(core) {}

  std::shared_ptr<QueuePutter> of(const QueueAddress& address);
  void on_session_end() override;

 private:
  static constexpr std::size_t kMostKept = 64;

  ParticipantCore& core_;
  platform::Mutex mutex_;
  std::list<std::shared_ptr<QueuePutter>> kept_ TB_GUARDED_BY(mutex_);  // the latest first
};

}  // namespace tensorbus::bus
