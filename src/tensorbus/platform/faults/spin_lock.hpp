#pragma once

#include "tensorbus/platform/atomic.hpp"

namespace tensorbus::platform {

// A lock that a signal handler can try to take. Zero is free: it needs no constructor at run time.
class SpinLock {
 public:
  // Acquire: pairs with the release in unlock(); the next holder sees what this one has written.
  bool try_lock() noexcept { return !locked_.exchange(true, std::memory_order_acquire); }
  void unlock() noexcept { locked_.store(false, std::memory_order_release); }

 private:
  Atomic<bool> locked_{false};
};

}  // namespace tensorbus::platform
