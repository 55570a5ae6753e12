#include "tensorbus/bus/queue_client/queue_putters.hpp"

#include <algorithm>

namespace tensorbus::bus {

// The lists of others are destroyed without the lock.
std::shared_ptr<QueuePutter> QueuePutters::of(const QueueAddress& address) {
  std::list<std::shared_ptr<QueuePutter>> over;
  const platform::MutexLock lock(mutex_);
  const auto found =
      std::ranges::find_if(kept_, [&](const auto& putter) { return putter->address() == address; });
  if (found != kept_.end()) {
    kept_.splice(kept_.begin(), kept_, found);
    return kept_.front();
  }
  if (kept_.size() == kMostKept) over.splice(over.end(), kept_, std::prev(kept_.end()));
  kept_.push_front(std::make_shared<QueuePutter>(core_, address));
  return kept_.front();
}

void QueuePutters::on_session_end() {
  const platform::MutexLock lock(mutex_);
  for (const auto& putter : kept_) putter->close_if_host_is_gone();
}

}  // namespace tensorbus::bus
