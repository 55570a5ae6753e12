#include "tensorbus/platform/waiting/futex.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <ctime>

namespace tensorbus::platform {

static_assert(sizeof(Atomic<std::uint32_t>) == 4);
static_assert(Atomic<std::uint32_t>::is_always_lock_free);

FutexWait futex_wait(Atomic<std::uint32_t>& word, std::uint32_t expected,
                     std::chrono::nanoseconds timeout) noexcept {
  if (timeout.count() <= 0) return FutexWait::kTimedOut;
  const timespec relative{.tv_sec = timeout.count() / 1'000'000'000,
                          .tv_nsec = timeout.count() % 1'000'000'000};
  if (::syscall(SYS_futex, &word, FUTEX_WAIT, expected, &relative, nullptr, 0) == 0)
    return FutexWait::kWoken;
  if (errno == ETIMEDOUT) return FutexWait::kTimedOut;
  return errno == EINTR ? FutexWait::kInterrupted : FutexWait::kWoken;
}

void futex_wake_all(Atomic<std::uint32_t>& word) noexcept {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace tensorbus::platform
