#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

#include "tensorbus/platform/atomic.hpp"

namespace tensorbus::platform {

enum class FutexWait { kWoken, kTimedOut, kInterrupted };

// Sleeps while `word` holds `expected`, at most for `timeout`. The word may lie in memory shared by
// several processes. May return without a reason: the caller checks its condition again.
FutexWait futex_wait(Atomic<std::uint32_t>& word, std::uint32_t expected,
                     std::chrono::nanoseconds timeout) noexcept;

// A word, and its value while a thread sleeps on it.
struct FutexWord {
  Atomic<std::uint32_t>* word = nullptr;
  std::uint32_t expected = 0;
};

// Returns true if a thread can sleep on several words at once (Linux 5.16 and newer).
bool can_wait_for_any() noexcept;

// Sleeps on at most kMaxFutexWords words until one of them ends the wait. Does not return
// kInterrupted for a signal handler with SA_RESTART: the kernel continues the wait. If the kernel
// refuses the call, waits for a short time on the first word alone.
inline constexpr std::size_t kMaxFutexWords = 128;
FutexWait futex_wait_any(std::span<const FutexWord> words,
                         std::chrono::nanoseconds timeout) noexcept;

// Wakes all threads that sleep on `word`, in every process.
void futex_wake_all(Atomic<std::uint32_t>& word) noexcept;

}  // namespace tensorbus::platform
