#include "tensorbus/platform/waiting/futex.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <ctime>

#include "tensorbus/platform/clock.hpp"

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif

namespace tensorbus::platform {
namespace {

// The layout of futex_waitv in linux/futex.h since Linux 5.16.
struct WaitedWord {
  std::uint64_t expected = 0;
  std::uint64_t address = 0;
  std::uint32_t flags = 0;
  std::uint32_t reserved = 0;
};
constexpr std::uint32_t kFlag32Bits = 2;
// Maximum wait after the kernel refused the call, for lack of memory or by a system call filter.
constexpr std::chrono::nanoseconds kRefusedSlice = std::chrono::milliseconds(5);

timespec to_timespec(std::chrono::nanoseconds time) noexcept {
  return {.tv_sec = time.count() / 1'000'000'000, .tv_nsec = time.count() % 1'000'000'000};
}

FutexWait outcome_of_wait(long result) noexcept {
  if (result >= 0) return FutexWait::kWoken;
  if (errno == ETIMEDOUT) return FutexWait::kTimedOut;
  return errno == EINTR ? FutexWait::kInterrupted : FutexWait::kWoken;
}

}  // namespace

static_assert(sizeof(Atomic<std::uint32_t>) == 4);
static_assert(Atomic<std::uint32_t>::is_always_lock_free);

FutexWait futex_wait(Atomic<std::uint32_t>& word, std::uint32_t expected,
                     std::chrono::nanoseconds timeout) noexcept {
  if (timeout.count() <= 0) return FutexWait::kTimedOut;
  const timespec relative = to_timespec(timeout);
  return outcome_of_wait(::syscall(SYS_futex, &word, FUTEX_WAIT, expected, &relative, nullptr, 0));
}

// A kernel that has the call rejects an empty list as an invalid argument. Any number of threads
// may ask at the same time: a static variable would be locked meanwhile, also in a child of a fork.
bool can_wait_for_any() noexcept {
  enum Answer : std::uint8_t { kUnknown, kNo, kYes };
  static std::atomic<Answer> known = kUnknown;  // relaxed: it orders nothing
  Answer answer = known.load(std::memory_order_relaxed);
  if (answer == kUnknown) {
    const bool can =
        ::syscall(SYS_futex_waitv, nullptr, 0, 0, nullptr, CLOCK_MONOTONIC) < 0 && errno == EINVAL;
    answer = can ? kYes : kNo;
    known.store(answer, std::memory_order_relaxed);
  }
  return answer == kYes;
}

FutexWait futex_wait_any(std::span<const FutexWord> words,
                         std::chrono::nanoseconds timeout) noexcept {
  if (timeout.count() <= 0) return FutexWait::kTimedOut;
  std::array<WaitedWord, kMaxFutexWords> waited;
  const std::size_t count = std::min(words.size(), waited.size());
  for (std::size_t i = 0; i < count; ++i)
    waited[i] = {words[i].expected, reinterpret_cast<std::uintptr_t>(words[i].word), kFlag32Bits};
  const timespec until = to_timespec(Clock::now().time_since_epoch() + timeout);
  const long result = ::syscall(SYS_futex_waitv, waited.data(), count, 0, &until, CLOCK_MONOTONIC);
  const bool is_refused = result < 0 && errno != EAGAIN && errno != ETIMEDOUT && errno != EINTR;
  if (!is_refused) return outcome_of_wait(result);
  return futex_wait(*words[0].word, words[0].expected, std::min(timeout, kRefusedSlice));
}

void futex_wake_all(Atomic<std::uint32_t>& word) noexcept {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace tensorbus::platform
