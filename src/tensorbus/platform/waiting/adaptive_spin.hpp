#pragma once

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

namespace tensorbus::platform {

// Initialized when the library is loaded (docs/internals/threading.md, "Forks").
inline const bool kHasOneCore = ::sysconf(_SC_NPROCESSORS_ONLN) < 2;

// Decides whether a waiting thread spins before it sleeps. Spinning saves time between two
// processes that reply to each other at once, because waking a thread takes longer than the reply.
// After a long wait or a failed spin, some short waits pass without spinning. So an idle system
// sleeps, and a system whose replies come slightly too late spins only sometimes. Any number of
// threads may share an object. Relaxed throughout: the values are hints and order nothing.
class AdaptiveSpin {
 public:
  // `rest`: the number of short waits without spinning after a failed spin.
  explicit AdaptiveSpin(std::uint32_t rest = kRest) noexcept : after_in_vain_(rest) {}

  static std::chrono::nanoseconds most() noexcept {
    return kHasOneCore ? std::chrono::nanoseconds{} : kMax;
  }
  bool looks() const noexcept { return !kHasOneCore && rest_.load(std::memory_order_relaxed) == 0; }
  // Called after spinning.
  void looked(bool found) noexcept {
    rest_.store(found ? 0 : after_in_vain_, std::memory_order_relaxed);
  }
  // Called after sleeping, with the whole waiting time.
  void slept(std::chrono::nanoseconds waited) noexcept {
    const std::uint32_t rest = rest_.load(std::memory_order_relaxed);
    if (waited >= kShort)
      rest_.store(std::max(rest, 1U), std::memory_order_relaxed);
    else if (rest != 0)
      rest_.store(rest - 1, std::memory_order_relaxed);
  }

 private:
  static constexpr std::chrono::nanoseconds kMax = std::chrono::microseconds(80);
  // A short wait, including the time to fall asleep and to be woken.
  static constexpr std::chrono::nanoseconds kShort = std::chrono::microseconds(100);
  static constexpr std::uint32_t kRest = 16;

  const std::uint32_t after_in_vain_;
  std::atomic<std::uint32_t> rest_ = 1;
};

}  // namespace tensorbus::platform
