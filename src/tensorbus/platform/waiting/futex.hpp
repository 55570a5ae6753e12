#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

#include "tensorbus/platform/atomic.hpp"

namespace tensorbus::platform {

enum class FutexWait { kWoken, kTimedOut, kInterrupted };

// Sleeps while `word` holds `expected`, for at most `timeout`. The word may lie in memory that
// several processes map. May wake without a reason: the caller checks its condition again.
FutexWait futex_wait(Atomic<std::uint32_t>& word, std::uint32_t expected,
                     std::chrono::nanoseconds timeout) noexcept;

// A word, and what it holds while a thread sleeps on it.
struct FutexWord {
  Atomic<std::uint32_t>* word = nullptr;
  std::uint32_t expected = 0;
};

// Returns true if a thread can sleep on several words at once, which Linux 5.16 and newer can.
bool can_wait_for_any() noexcept;

// futex_wait() of all these words, at most kMostFutexWords: ends when one of them does. Not with
// kInterrupted after a handler that was installed with SA_RESTART: the kernel goes on waiting. If
// it refuses, the first word alone ends the wait, which is then short.
inline constexpr std::size_t kMostFutexWords = 128;
FutexWait futex_wait_any(std::span<const FutexWord> words,
                         std::chrono::nanoseconds timeout) noexcept;

// Wakes all threads that sleep on `word`, in every process.
void futex_wake_all(Atomic<std::uint32_t>& word) noexcept;

}  // namespace tensorbus::platform
