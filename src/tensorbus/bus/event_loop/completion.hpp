#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "tensorbus/bus/event_loop/event_loop.hpp"
#include "tensorbus/platform/error.hpp"
#include "tensorbus/platform/mutex.hpp"
#include "tensorbus/platform/waiting/futex.hpp"
#include "tensorbus/platform/waiting/stop_condition.hpp"

namespace tensorbus::bus {

// The part of a Completion that does not depend on its result: its state, and the wait for it.
class CompletionState {
 public:
  CompletionState() = default;
  CompletionState(const CompletionState&) = delete;
  CompletionState& operator=(const CompletionState&) = delete;

  bool done() const noexcept {
    return done_.load(std::memory_order_acquire) == kDone;  // pairs with finish()
  }
  // Called by the waiting thread: waits until this or `other` is done, and runs handlers during the
  // wait if no other thread does. Returns kDone, kTimedOut or kInterrupted. Before each sleep it
  // calls first_sleep(most), which may sleep in another way, and returns an empty result if it did
  // not sleep.
  template <typename Sleep>
  Outcome wait_driving(const platform::StopCondition& stop, EventLoop::Driver& driver,
                       CompletionState* other, const Sleep& first_sleep) {
    const auto any = [&] { return done() || (other != nullptr && other->done()); };
    const Outcome outcome = stop.wait(any, [&](auto most) {
      if (const std::optional<platform::FutexWait> slept = first_sleep(most)) return *slept;
      if (driver.take()) return drive(driver, most, any, other);
      return sleep(most, stop.give_up() ? other : nullptr);
    });
    driver.leave();
    return outcome;
  }
  // Called by the waiting thread: returns the word that is woken when this is done.
  platform::FutexWord to_sleep_on() noexcept {
    std::uint32_t none = kNothing;
    // Relaxed: done() orders later reads.
    done_.compare_exchange_strong(none, kSleeps, std::memory_order_relaxed);
    return {&done_, kSleeps};
  }

 protected:
  ~CompletionState() = default;

  static constexpr std::uint32_t kNothing = 0;
  static constexpr std::uint32_t kDone = 1;
  static constexpr std::uint32_t kSleeps = 2;  // not done, and a thread waits for it

  // `other` is null if there is no other completion, or if signals must end the wait: a wait for
  // two words does not end at every signal. On a kernel without this wait, the caller's next check
  // sees that `other` is done.
  platform::FutexWait sleep(std::chrono::nanoseconds most, CompletionState* other) noexcept {
    const platform::FutexWord word = to_sleep_on();
    if (other == nullptr || !platform::can_wait_for_any())
      return platform::futex_wait(*word.word, word.expected, most);
    return platform::futex_wait_any(std::array{word, other->to_sleep_on()}, most);
  }
  // Leaves the driver's place before it returns, because give_up() may be called next.
  template <typename Done>
  platform::FutexWait drive(EventLoop::Driver& driver, std::chrono::nanoseconds most,
                            const Done& until, CompletionState* other) {
    set_driven(&driver.loop());
    if (other != nullptr) other->set_driven(&driver.loop());
    const platform::FutexWait parked = driver.wait_until(until, most);
    set_driven(nullptr);
    if (other != nullptr) other->set_driven(nullptr);
    driver.leave();
    return parked;
  }
  void set_driven(EventLoop* loop) noexcept {
    const platform::MutexLock lock(mutex_);
    driven_ = loop;
  }

  platform::Mutex mutex_;
  EventLoop* driven_ TB_GUARDED_BY(mutex_) = nullptr;  // null: the waiting thread runs no handlers
  std::atomic<std::uint32_t> done_{kNothing};
};

// A result that the event loop produces for one waiting thread. Both hold a reference: if the
// thread gives up, the result is destroyed with the object.
template <typename T>
class Completion : public CompletionState {
 public:
  // Called by the event loop. Returns false if no thread waits any more, or a result came before;
  // the caller then keeps the value.
  bool set(T&& value) noexcept {
    return finish([&] { value_.emplace(std::move(value)); });
  }
  // Copies the text: otherwise two threads would release the text that exceptions share.
  bool fail(const Error& error) {
    std::string text(error.what());
    return finish([&] { failure_.emplace(Failure{error.code(), std::move(text)}); });
  }

  // Called by the waiting thread. Calls `tell` once: in the thread that sets the result, or at once
  // if the result has come.
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
    if (given_up_) tell_ = {};  // releases its objects: the peer may never reply
    return given_up_;
  }
  // Returns kDone, kTimedOut or kInterrupted. Throws the error of fail().
  Outcome wait(const platform::StopCondition& stop) {
    return checked(
        stop.wait([this] { return done(); }, [this](auto most) { return sleep(most, nullptr); }));
  }
  // As above, but runs handlers during the wait if no other thread does.
  Outcome wait(const platform::StopCondition& stop, EventLoop::Driver& driver) {
    return wait(stop, driver, nullptr, [](auto) { return std::optional<platform::FutexWait>(); });
  }
  // See wait_driving(). Returns kClosed if only `other` is done.
  template <typename Sleep>
  Outcome wait(const platform::StopCondition& stop, EventLoop::Driver& driver,
               CompletionState* other, const Sleep& first_sleep) {
    const Outcome outcome = wait_driving(stop, driver, other, first_sleep);
    return outcome == Outcome::kDone && !done() ? Outcome::kClosed : checked(outcome);
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

  Outcome checked(Outcome outcome) const {
    if (outcome == Outcome::kDone && failure_) throw Error(failure_->code, failure_->text);
    return outcome;
  }
  template <typename Store>
  bool finish(Store store) noexcept {
    bool sleeps = false;
    {
      const platform::MutexLock lock(mutex_);
      if (done() || given_up_) return false;
      store();
      sleeps = done_.exchange(kDone, std::memory_order_acq_rel) == kSleeps;
      if (driven_ != nullptr) EventLoop::Driver::kick(*driven_);
      if (tell_) std::exchange(tell_, {})();
    }
    if (sleeps) platform::futex_wake_all(done_);
    return true;
  }

  // Written before done_; from then on owned by the waiting thread.
  std::optional<T> value_;
  std::optional<Failure> failure_;
  std::function<void()> tell_ TB_GUARDED_BY(mutex_);
  bool given_up_ TB_GUARDED_BY(mutex_) = false;
};

}  // namespace tensorbus::bus
