#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <optional>
#include <utility>

#include "tensorbus/bus/options.hpp"
#include "tensorbus/link/wake.hpp"
#include "tensorbus/platform/clock.hpp"
#include "tensorbus/platform/futex.hpp"

namespace tensorbus::bus {

// What the service thread finds out for one thread that waits. Both hold it: if the one gives up,
// what the other brings goes with it.
template <typename T>
class Awaited {
 public:
  // By the service thread; what comes after the first is dropped.
  void set(T value) noexcept {
    finish([&] { value_.emplace(std::move(value)); });
  }
  void fail(std::exception_ptr error) noexcept {
    finish([&] { error_ = std::move(error); });
  }

  // kDone, kTimedOut or kInterrupted. Throws what fail() was given.
  Outcome wait(std::chrono::nanoseconds timeout, const GiveUp& give_up) {
    const platform::Deadline deadline(timeout);
    while (!done()) {
      if (deadline.passed()) return Outcome::kTimedOut;
      const auto parked = platform::futex_wait(done_, 0, deadline.remaining(link::kParkSlice));
      if (done()) break;
      if (give_up ? give_up() : parked == platform::FutexWait::kInterrupted)
        return Outcome::kInterrupted;
    }
    if (error_) std::rethrow_exception(error_);
    return Outcome::kDone;
  }
  // After kDone, once.
  T take() { return *std::exchange(value_, std::nullopt); }

 private:
  bool done() const noexcept {
    return done_.load(std::memory_order_acquire) != 0;  // pairs with finish()
  }
  template <typename Store>
  void finish(Store store) noexcept {
    {
      const std::lock_guard lock(mutex_);
      if (done()) return;
      store();
      done_.store(1, std::memory_order_release);
    }
    platform::futex_wake_all(done_);
  }

  std::mutex mutex_;
  std::atomic<std::uint32_t> done_{0};
  std::optional<T> value_;
  std::exception_ptr error_;
};

}  // namespace tensorbus::bus
