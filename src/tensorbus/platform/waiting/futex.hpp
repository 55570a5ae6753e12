#pragma once

#include <chrono>
#include <cstdint>

#include "tensorbus/platform/atomic.hpp"

namespace tensorbus::platform {

enum class FutexWait { kWoken, kTimedOut, kInterrupted };

// Sleeps while `word` holds `expected`, for at most `timeout`. The word may lie in memory that
// several processes map. May wake without a reason: the caller checks its condition again.
FutexWait futex_wait(Atomic<std::uint32_t>& word, std::uint32_t expected,
                     std::chrono::nanoseconds timeout) noexcept;

// Wakes all threads that sleep on `word`, in every process.
void futex_wake_all(Atomic<std::uint32_t>& word) noexcept;

}  // namespace tensorbus::platform
