#pragma once

#include <compare>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <tensorbus/values/id.hpp>

#include "tensorbus/platform/mutex.hpp"

namespace tensorbus::bus {

// The items of queues that this process took and has not finished, in the order of the takes. Items
// of a queue without `redeliver` have no numbers and are only counted. Thread-safe.
class TakenItems {
 public:
  struct Queue {
    Id server;
    std::uint64_t number = 0;
    auto operator<=>(const Queue&) const = default;
  };

  void add(const Queue& queue, std::uint64_t item) {
    const platform::MutexLock lock(mutex_);
    Taken& taken = queues_[queue];
    if (item == 0)
      ++taken.unnamed;
    else
      taken.named.push_back(item);
  }
  // Removes the oldest item and returns its number, 0 if it has none. Returns an empty value if
  // there is no item.
  std::optional<std::uint64_t> remove_oldest(const Queue& queue) {
    const platform::MutexLock lock(mutex_);
    const auto found = queues_.find(queue);
    if (found == queues_.end()) return std::nullopt;
    Taken& taken = found->second;
    std::uint64_t item = 0;
    if (taken.named.empty()) {
      --taken.unnamed;
    } else {
      item = taken.named.front();
      taken.named.pop_front();
    }
    if (taken.named.empty() && taken.unnamed == 0) queues_.erase(found);
    return item;
  }

 private:
  struct Taken {
    std::deque<std::uint64_t> named;
    std::uint64_t unnamed = 0;
  };

  platform::Mutex mutex_;
  std::map<Queue, Taken> queues_ TB_GUARDED_BY(mutex_);  // only queues with items
};

}  // namespace tensorbus::bus
