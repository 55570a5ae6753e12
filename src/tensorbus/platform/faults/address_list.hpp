#pragma once

#include <poll.h>
#include <sched.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "tensorbus/platform/faults/spin_lock.hpp"
#include "tensorbus/platform/mutex.hpp"

namespace tensorbus::platform {

// The member by which an object is linked into an AddressList.
template <typename T>
struct AddressLink {
  std::span<const std::byte> memory;
  T* newer = nullptr;
  T* older = nullptr;
};

// List of all objects of one kind in this process, newest first. Each object covers a range of
// memory. Signal handlers search the list; no code allocates or waits while it holds the lock. An
// object has a member `AddressLink<T> link_`, is in one list, and removes itself.
//
// A list is a global. The code that defines it makes fork() take the lock (pthread_atfork):
// otherwise a child could inherit a half-changed list, or a lock that no thread will release.
template <typename T>
class TB_CAPABILITY("address list") AddressList {
 public:
  void add(T& object) noexcept TB_REQUIRES(this) {
    object.link_.older = newest_;
    if (newest_ != nullptr) newest_->link_.newer = &object;
    newest_ = &object;
  }

  void remove(T& object) noexcept TB_REQUIRES(this) {
    const AddressLink<T>& link = object.link_;
    (link.newer == nullptr ? newest_ : link.newer->link_.older) = link.older;
    if (link.older != nullptr) link.older->link_.newer = link.newer;
  }

  T* find(const void* address) const noexcept TB_REQUIRES(this) {
    return overlapping({static_cast<const std::byte*>(address), 1});
  }

  // Returns the newest object that covers some of these bytes; with `after`, the newest object that
  // is older than `after`.
  T* overlapping(std::span<const std::byte> bytes, const T* after = nullptr) const noexcept
      TB_REQUIRES(this) {
    const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data());
    for (T* object = after == nullptr ? newest_ : after->link_.older; object != nullptr;
         object = object->link_.older) {
      const std::span<const std::byte> memory = object->link_.memory;
      const auto at = reinterpret_cast<std::uintptr_t>(memory.data());
      // A difference that would be negative is a huge unsigned number.
      if (begin - at < memory.size() || (at - begin < bytes.size() && !memory.empty()))
        return object;
    }
    return nullptr;
  }

  void lock() noexcept TB_ACQUIRE() {
    while (!try_lock()) ::sched_yield();
  }
  void unlock() noexcept TB_RELEASE() { lock_.unlock(); }

  // Takes the lock in a signal handler. Returns false after `attempts` attempts, each of about 1
  // ms. It sleeps between them, because the holder may be waiting for a core. The number is
  // bounded, because the holder may be this thread, if the list itself is damaged.
  bool lock_in_handler(int attempts = 100) noexcept TB_TRY_ACQUIRE(true) {
    for (int attempt = 0; attempt < attempts; ++attempt) {
      if (try_lock()) return true;
      ::poll(nullptr, 0, 1);
    }
    return false;
  }

 private:
  bool try_lock() noexcept TB_TRY_ACQUIRE(true) { return lock_.try_lock(); }

  SpinLock lock_;
  T* newest_ TB_GUARDED_BY(this) = nullptr;
};

}  // namespace tensorbus::platform
