#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "tensorbus/platform/fork_guard.hpp"

namespace tensorbus::platform {

// Starts a thread with SignalsBlocked that runs until the process ends. Throws Error(kSystem) or
// Error(kOutOfMemory), with `what` in its text, if no thread can be started.
void start_background_thread(const std::string& what, std::function<void()> run);

// A thread that a process starts once, and the state that it shares with other threads. Both exist
// until the process ends; a forked child has neither.
template <typename State>
class BackgroundThread {
 public:
  constexpr BackgroundThread(const char* what, void (*run)(State&)) noexcept
      : what_(what), run_(run) {}

  // Returns null before the thread is started, and in a child.
  State* running() const noexcept {
    Started* const found = started_.load(std::memory_order_acquire);  // pairs with start()
    const bool here = found != nullptr && found->fork_generation == fork_generation();
    return here ? &found->state : nullptr;
  }
  // Starts the thread if it is not running. Throws as start_background_thread() does.
  State& start() {
    State* found = running();
    while (found == nullptr && !take_turn()) {
      std::this_thread::yield();
      found = running();
    }
    if (found != nullptr) return *found;
    const Turn turn(*this);
    found = running();
    if (found != nullptr) return *found;
    auto fresh = std::make_unique<Started>();
    start_background_thread(what_, [run = run_, &state = fresh->state] { run(state); });
    started_.store(fresh.get(), std::memory_order_release);
    return fresh.release()->state;
  }

 private:
  struct Started {
    const std::uint32_t fork_generation = platform::fork_generation();
    State state;
  };
  // Only one caller at a time starts the thread. This is not a mutex: in a child forked meanwhile,
  // a mutex would stay locked forever. Here the child reads its parent's number and takes its turn.
  bool take_turn() noexcept {
    const std::uint32_t ours = fork_generation() + 1;
    std::uint32_t theirs = starting_.load(std::memory_order_relaxed);
    return theirs != ours &&
           starting_.compare_exchange_strong(theirs, ours, std::memory_order_acquire,
                                             std::memory_order_relaxed);  // pairs with ~Turn()
  }
  struct Turn {
    explicit Turn(BackgroundThread& thread) noexcept : of(thread) {}
    ~Turn() { of.starting_.store(0, std::memory_order_release); }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    BackgroundThread& of;
  };

  const char* const what_;
  void (*const run_)(State&);
  std::atomic<std::uint32_t> starting_{0};  // 0, or 1 + the fork generation of a starting thread
  std::atomic<Started*> started_{nullptr};
};

}  // namespace tensorbus::platform
