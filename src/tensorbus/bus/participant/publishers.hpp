#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tensorbus/bus/publish/sender.hpp"
#include "tensorbus/platform/mutex.hpp"

namespace tensorbus::bus {

// A participant's publishers by number, and the names of their marker files in the domain. Owned by
// Participant. Thread-safe.
class Publishers {
 public:
  std::uint32_t next_number() {
    const platform::MutexLock lock(mutex_);
    return next_number_++;
  }
  void add(const std::shared_ptr<Sender>& publisher, std::string marker) {
    const platform::MutexLock lock(mutex_);
    std::erase_if(all_, [](const auto& item) { return item.second.publisher.expired(); });
    all_.emplace(publisher->number(), Published{publisher, std::move(marker)});
  }
  // Returns the publisher's marker; empty if the number is unknown.
  std::string remove(std::uint32_t number) {
    const platform::MutexLock lock(mutex_);
    auto removed = all_.extract(number);
    return removed ? std::move(removed.mapped().marker) : std::string();
  }
  std::shared_ptr<Sender> find(std::uint32_t number) const {
    const platform::MutexLock lock(mutex_);
    const auto found = all_.find(number);
    return found == all_.end() ? nullptr : found->second.publisher.lock();
  }
  std::vector<std::shared_ptr<Sender>> living() const {
    const platform::MutexLock lock(mutex_);
    std::vector<std::shared_ptr<Sender>> living;
    for (const auto& [number, published] : all_)
      if (auto publisher = published.publisher.lock()) living.push_back(std::move(publisher));
    return living;
  }
  std::vector<std::string> markers() const {
    const platform::MutexLock lock(mutex_);
    std::vector<std::string> markers;
    for (const auto& [number, published] : all_) markers.push_back(published.marker);
    return markers;
  }

 private:
  struct Published {
    std::weak_ptr<Sender> publisher;
    std::string marker;
  };
  mutable platform::Mutex mutex_;
  std::map<std::uint32_t, Published> all_ TB_GUARDED_BY(mutex_);
  std::uint32_t next_number_ TB_GUARDED_BY(mutex_) = 1;
};

}  // namespace tensorbus::bus
