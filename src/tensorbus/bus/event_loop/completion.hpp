#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "tensorbus/platform/error.hpp"
#include "tensorbus/platform/mutex.hpp"
#include "tensorbus/platform/waiting/futex.hpp"
#include "tensorbus/platform/waiting/stop_condition.hpp"

namespace tensorbus::bus {

// A result that the event loop produces for one waiting thread. Both hold a reference: if the
// thread gives up, the result is destroyed with the object.
template <typename T>
class Completion {
 public:
  // Called by the event loop. Returns false if nothing waits any more, or a result came before;
  // then the caller keeps the value.
  bool set(T&& value) noexcept {
    return finish([&] { value_.emplace(std::move(value)); });
  }
  // Copies the text: two threads would otherwise release the text that exceptions share.
  bool fail(const Error& error) {
    std::string text(error.what());
    return finish([&] { failure_.emplace(Failure{error.code(), std::move(text)}); });
  }

  // Called by the waiting thread. Calls `tell` once, in the thread that brings the result; at once
  // if it is there.
  void on_done(std::function<void()> tell) {
    const platform::MutexLock lock(mutex_);
    if (done())
      tell();
    else
      tell_ = std::move(tell);
  }

  // Called by the waiting thread: stops waiting. Returns false if the result has come.
  bool give_up() noexcept {
    const platform::MutexLock lock(mutex_);
    given_up_ = !done();
    if (given_up_) tell_ = {};  // releases what it holds: the peer may never answer
    return given_up_;
  }
  // Returns kDone, kTimedOut or kInterrupted. Throws the error of fail().
  Outcome wait(const platform::StopCondition& stop) {
    const Outcome outcome =
        stop.wait([this] { return done(); },
                  [this](auto most) { return platform::futex_wait(done_, 0, most); });
    if (outcome == Outcome::kDone && failure_) throw Error(failure_->code, failure_->text);
    return outcome;
  }
  bool done() const noexcept {
    return done_.load(std::memory_order_acquire) != 0;  // pairs with finish()
  }
  // Called once, after kDone.
  T take() { return *std::exchange(value_, std::nullopt); }
  // Returns a result that was not taken. Called by the waiting thread, after it stopped waiting.
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
