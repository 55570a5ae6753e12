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
  for (auto next = kept_.begin(); next != kept_.end();) {
    const auto putter = next++;
    if ((*putter)->host_is_gone()) over.splice(over.end(), kept_, putter);
  }
  if (kept_.size() == kMostKept) over.splice(over.end(), kept_, std::prev(kept_.end()));
  kept_.push_front(std::make_shared<QueuePutter>(core_, address));
  return kept_.front();
}

}  // namespace tensorbus::bus
