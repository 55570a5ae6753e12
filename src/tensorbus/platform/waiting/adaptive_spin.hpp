#pragma once

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

namespace tensorbus::platform {

// Made when the library is loaded (docs/threading.md, "Forks").
inline const bool kHasOneCore = ::sysconf(_SC_NPROCESSORS_ONLN) < 2;

// How long a thread is to look for something before it sleeps until that comes. Two processes that
// answer each other at once look, since to wake a thread takes longer than the answer. One long
// wait ends that, and so does a look in vain: a system that sleeps stays asleep, and one where
// things come a little too late looks now and then. Hints for any number of threads, which order
// nothing.
class AdaptiveSpin {
 public:
  // `rest`: how many short waits after a look in vain until the next one.
  explicit AdaptiveSpin(std::uint32_t rest = kRest) noexcept : after_in_vain_(rest) {}

  static std::chrono::nanoseconds most() noexcept {
    return kHasOneCore ? std::chrono::nanoseconds{} : kMost;
  }
  bool looks() const noexcept { return !kHasOneCore && rest_.load(std::memory_order_relaxed) == 0; }
  // A look ended.
  void looked(bool found) noexcept {
    rest_.store(found ? 0 : after_in_vain_, std::memory_order_relaxed);
  }
  // A thread slept, and waited so long in all.
  void slept(std::chrono::nanoseconds waited) noexcept {
    const std::uint32_t rest = rest_.load(std::memory_order_relaxed);
    if (waited >= kShort)
      rest_.store(std::max(rest, 1U), std::memory_order_relaxed);
    else if (rest != 0)
      rest_.store(rest - 1, std::memory_order_relaxed);
  }

 private:
  static constexpr std::chrono::nanoseconds kMost = std::chrono::microseconds(80);
  // A wait that was short, with what it takes to fall asleep and be woken.
  static constexpr std::chrono::nanoseconds kShort = std::chrono::microseconds(100);
  static constexpr std::uint32_t kRest = 16;

  const std::uint32_t after_in_vain_;
  std::atomic<std::uint32_t> rest_ = 1;
};

}  // namespace tensorbus::platform
