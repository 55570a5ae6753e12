#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <tensorbus/options.hpp>
#include <tensorbus/stats.hpp>
#include <utility>

#include "tensorbus/link/wake/wake.hpp"
#include "tensorbus/platform/clock.hpp"
#include "tensorbus/platform/error.hpp"
#include "tensorbus/platform/mutex.hpp"
#include "tensorbus/platform/waiting/futex.hpp"

namespace tensorbus::bus {

// What the event loop finds out for one thread that waits. Both hold it: if the one gives up,
// what the other brings goes with it.
template <typename T>
class Completion {
 public:
  // By the event loop. False: nobody waits any more, or it came before; then it is the caller's
  // still.
  bool set(T&& value) noexcept {
    return finish([&] { value_.emplace(std::move(value)); });
  }
  // The text is a copy: what an exception counts by itself would be let go of by both threads.
  bool fail(const Error& error) {
    std::string text(error.what());
    return finish([&] { failure_.emplace(Failure{error.code(), std::move(text)}); });
  }

  // By whoever waits: called once, by whoever it comes from, when it has come; at once if it has.
  void on_done(std::function<void()> tell) {
    const platform::MutexLock lock(mutex_);
    if (done())
      tell();
    else
      tell_ = std::move(tell);
  }

  // By whoever waits: no longer. False: it has come.
  bool give_up() noexcept {
    const platform::MutexLock lock(mutex_);
    given_up_ = !done();
    if (given_up_) tell_ = {};  // with what it holds: the peer may never answer
    return given_up_;
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
    if (failure_) throw Error(failure_->code, failure_->text);
    return Outcome::kDone;
  }
  bool done() const noexcept {
    return done_.load(std::memory_order_acquire) != 0;  // pairs with finish()
  }
  // After kDone, once.
  T take() { return *std::exchange(value_, std::nullopt); }
  // What has come, if it was not taken. By whoever waits, who is done with waiting.
  std::optional<T> left() noexcept { return std::exchange(value_, std::nullopt); }

 private:
  struct Failure {
    Code code;
    std::string text;
  };

  template <typename Store>
  bool finish(Store store) noexcept {
    {
      const platform::MutexLock lock(mutex_);
      if (done() || given_up_) return false;
      store();
      done_.store(1, std::memory_order_release);
      if (tell_) std::exchange(tell_, {})();
    }
    platform::futex_wake_all(done_);
    return true;
  }

  platform::Mutex mutex_;
  std::atomic<std::uint32_t> done_{0};
  // Written before done_, and then of whoever waits.
  std::optional<T> value_;
  std::optional<Failure> failure_;
  std::function<void()> tell_ TB_GUARDED_BY(mutex_);
  bool given_up_ TB_GUARDED_BY(mutex_) = false;
};

}  // namespace tensorbus::bus
