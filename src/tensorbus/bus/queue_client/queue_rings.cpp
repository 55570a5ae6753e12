#include "tensorbus/bus/queue_client/queue_rings.hpp"

#include <algorithm>

namespace tensorbus::bus {

// What is over is destroyed without the lock.
std::shared_ptr<const QueueRings> KeptQueueRings::of(const QueueAddress& address) {
  std::list<std::shared_ptr<const QueueRings>> over;
  const platform::MutexLock lock(mutex_);
  const auto found =
      std::ranges::find_if(kept_, [&](const auto& rings) { return rings->address == address; });
  if (found != kept_.end()) {
    kept_.splice(kept_.begin(), kept_, found);
    return kept_.front();
  }
  if (kept_.size() == kMostKept) over.splice(over.end(), kept_, std::prev(kept_.end()));
  kept_.push_front(std::make_shared<const QueueRings>(core_, address));
  return kept_.front();
}

void KeptQueueRings::on_session_end() {
  const platform::MutexLock lock(mutex_);
  for (const auto& rings : kept_) {
    rings->putter->close_if_host_is_gone();
    rings->prefetch->close_if_host_is_gone();
  }
}

}  // namespace tensorbus::bus
