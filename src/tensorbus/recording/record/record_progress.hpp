#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "tensorbus/platform/error.hpp"
#include "tensorbus/platform/mutex.hpp"
#include "tensorbus/platform/waiting/futex.hpp"

namespace tensorbus::recording {

// The state of the threads of a recorder or a player. It outlives the recorder or player, because
// the threads still use it when they end. Thread-safe.
class RecordProgress {
 public:
  // Keeps the first failure.
  void fail(const Error& failure) {
    const platform::MutexLock lock(mutex_);
    if (!error_) error_ = failure;
  }
  std::optional<Error> failure() const {
    const platform::MutexLock lock(mutex_);
    return error_;
  }
  // Returns true if a thread has failed and all threads have ended: the state is then final.
  bool has_failed() const noexcept { return failed_.load(std::memory_order_acquire) != 0; }
  platform::FutexWait park_until_failed(std::chrono::nanoseconds most) noexcept {
    return platform::futex_wait(failed_, 0, most);
  }

  void begin_thread() {
    const platform::MutexLock lock(mutex_);
    ++running_;
  }
  void end_thread() {
    const platform::MutexLock lock(mutex_);
    --running_;
    changed_.notify_all();
    if (running_ > 0 || !error_) return;
    failed_.store(1, std::memory_order_release);  // pairs with has_failed()
    platform::futex_wake_all(failed_);
  }
  void wait_for_threads() {
    const platform::MutexLock lock(mutex_);
    while (running_ > 0) changed_.wait(mutex_);
  }

 private:
  mutable platform::Mutex mutex_;
  platform::Condition changed_;
  int running_ TB_GUARDED_BY(mutex_) = 0;
  std::optional<Error> error_ TB_GUARDED_BY(mutex_);
  std::atomic<std::uint32_t> failed_ = 0;  // a futex: 1 when all have ended and one has failed
};

}  // namespace tensorbus::recording
