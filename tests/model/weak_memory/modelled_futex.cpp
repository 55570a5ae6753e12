#include "tensorbus/platform/waiting/futex.hpp"

namespace tensorbus::platform {

// Time-outs never occur: a thread that is not woken sleeps for ever.
FutexWait futex_wait(Atomic<std::uint32_t>& word, std::uint32_t expected,
                     std::chrono::nanoseconds) noexcept {
  word.sleep_while(expected);
  return FutexWait::kWoken;
}

void futex_wake_all(Atomic<std::uint32_t>& word) noexcept { word.wake_all(); }

}  // namespace tensorbus::platform
