#include "tensorbus/bus/queue_client/queue_rings.hpp"

#include <algorithm>
#include <iterator>
#include <vector>

namespace tensorbus::bus {

// Destroys the removed rings without the lock held.
std::shared_ptr<const QueueRings> KeptQueueRings::of(const QueueAddress& address) {
  std::list<std::shared_ptr<const QueueRings>> over;
  const platform::MutexLock lock(mutex_);
  const auto found =
      std::ranges::find_if(kept_, [&](const auto& rings) { return rings->address == address; });
  if (found != kept_.end()) {
    kept_.splice(kept_.begin(), kept_, found);
    return kept_.front();
  }
  const auto unused = std::ranges::find_if(
      kept_.rbegin(), kept_.rend(), [](const auto& rings) { return rings.use_count() == 1; });
  // Rings in use stay: they are notified of ended sessions.
  if (kept_.size() >= kMaxKept && unused != kept_.rend())
    over.splice(over.end(), kept_, std::prev(unused.base()));
  kept_.push_front(std::make_shared<const QueueRings>(participant_, address));
  return kept_.front();
}

void KeptQueueRings::end() noexcept {
  const platform::MutexLock lock(mutex_);
  for (const auto& rings : kept_) rings->putter->end();
}

void KeptQueueRings::on_session_end() {
  std::vector<std::shared_ptr<const QueueRings>> all;
  {
    const platform::MutexLock lock(mutex_);
    all.assign(kept_.begin(), kept_.end());
  }
  for (const auto& rings : all) {
    rings->putter->close_if_server_is_gone();
    rings->getter->close_if_session_has_ended();
  }
}

}  // namespace tensorbus::bus
