#pragma once

#include "tensorbus/platform/atomic.hpp"

namespace tensorbus::platform {

// A lock that a signal handler can try to take. The zero value is unlocked: no constructor runs.
class SpinLock {
 public:
  // Acquire: pairs with the release in unlock(). A holder sees what the previous holder wrote.
  bool try_lock() noexcept { return !locked_.exchange(true, std::memory_order_acquire); }
  void unlock() noexcept { locked_.store(false, std::memory_order_release); }

 private:
  Atomic<bool> locked_{false};
};

}  // namespace tensorbus::platform
