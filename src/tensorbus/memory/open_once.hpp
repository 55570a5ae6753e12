#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "tensorbus/platform/mutex.hpp"

namespace tensorbus::memory {

// Objects that a process may open only once for each key. A thread that requests an object while
// another thread opens or closes it waits until that is done. Thread-safe.
//
//   OpenOnce<int, File> files;  // outlives the objects
//   std::shared_ptr<const File> one = files.find_or_open(3, [] { return File(3); });
template <typename Key, typename Opened>
class OpenOnce {
 public:
  using Ref = std::shared_ptr<const Opened>;

  // Throws what `open()` throws. The object is closed by the thread that releases it last.
  template <typename Open>
  Ref find_or_open(const Key& key, Open&& open) {
    if (Ref found = find_or_begin(key)) return found;
    Place place(*this, key);
    auto entry = std::make_shared<const Entry>(std::move(place), std::forward<Open>(open));
    Ref opened(entry, &entry->opened);
    {
      const platform::MutexLock lock(mutex_);
      entries_.at(key) = opened;
    }
    changed_.notify_all();
    return opened;
  }

  // Returns true if `predicate` holds for an open object.
  template <typename Predicate>
  bool any(Predicate predicate) {
    std::vector<Ref> open;  // released after the mutex: a reference may be the last
    {
      const platform::MutexLock lock(mutex_);
      for (const auto& [key, entry] : entries_)
        if (Ref found = entry.lock()) open.push_back(std::move(found));
    }
    return std::any_of(open.begin(), open.end(), [&](const Ref& one) { return predicate(*one); });
  }

 private:
  // Reserves the key from before the opening of the object until after its closing.
  class Place {
   public:
    Place(OpenOnce& table, const Key& key) : table_(&table), key_(key) {}
    Place(Place&& other) noexcept
        : table_(std::exchange(other.table_, nullptr)), key_(std::move(other.key_)) {}
    Place& operator=(Place&&) = delete;
    ~Place() {
      if (table_ != nullptr) table_->leave(key_);
    }

   private:
    OpenOnce* table_;
    Key key_;
  };
  struct Entry {
    template <typename Open>
    Entry(Place&& taken, Open&& open) : place(std::move(taken)), opened(open()) {}
    Place place;  // destroyed after `opened`
    Opened opened;
  };

  // Returns null if the caller must open the object.
  Ref find_or_begin(const Key& key) {
    const platform::MutexLock lock(mutex_);
    while (true) {
      const auto [at, is_new] = entries_.try_emplace(key);
      if (is_new) return nullptr;
      if (Ref found = at->second.lock()) return found;
      changed_.wait(mutex_);
    }
  }
  void leave(const Key& key) {
    {
      const platform::MutexLock lock(mutex_);
      entries_.erase(key);
    }
    changed_.notify_all();
  }

  platform::Mutex mutex_;
  platform::Condition changed_;
  // An expired entry: the object is being opened or closed.
  std::map<Key, std::weak_ptr<const Opened>> entries_ TB_GUARDED_BY(mutex_);
};

}  // namespace tensorbus::memory
