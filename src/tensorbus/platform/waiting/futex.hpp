#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace tensorbus::platform {

enum class FutexWait { kWoken, kTimedOut, kInterrupted };

// Parks while `word` holds `expected`, at most `timeout`. The word may lie in memory that several
// processes map. May wake for no reason: look again at what you wait for.
FutexWait futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected,
                     std::chrono::nanoseconds timeout) noexcept;

// Wakes everybody parked on `word`, in every process.
void futex_wake_all(std::atomic<std::uint32_t>& word) noexcept;

}  // namespace tensorbus::platform
