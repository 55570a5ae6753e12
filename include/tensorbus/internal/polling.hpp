#pragma once

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <system_error>
#include <tensorbus/internal/fd.hpp>
#include <tensorbus/values/error.hpp>

namespace tensorbus::inline v0 {
namespace internal {

// Returns a timeout for poll() and epoll in ms; -1: no timeout. Rounds up, so that the last wait is
// not repeated with 0.
inline int milliseconds_of(std::chrono::nanoseconds timeout) noexcept {
  constexpr std::chrono::milliseconds kMax(std::numeric_limits<int>::max());
  if (timeout > kMax) return -1;
  return static_cast<int>(std::max(std::chrono::ceil<std::chrono::milliseconds>(timeout),
                                   std::chrono::milliseconds::zero())
                              .count());
}

// Finds readable descriptors, by the numbers with which they were added. Its own descriptor is
// readable when one of them is.
class Epoll {
 public:
  int descriptor() const noexcept { return epoll_.get(); }

  // Throws Error(kSystem).
  void add(int descriptor, std::uint64_t number) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = number;
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor, &event) != 0) fail("epoll_ctl");
  }
  // Called before the descriptor is closed: a forked child may still have it.
  void remove(int descriptor) noexcept {
    (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, descriptor, nullptr);
  }
  // Writes the events of readable descriptors into `events`; none if a signal handler ran.
  std::span<epoll_event> wait(std::span<epoll_event> events, std::chrono::nanoseconds timeout) {
    const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                                   milliseconds_of(timeout));
    if (count < 0 && errno != EINTR) fail("epoll_wait");
    return events.first(static_cast<std::size_t>(std::max(count, 0)));
  }

 private:
  [[noreturn]] static void fail(const char* call) {
    throw Error(Code::kSystem, std::string(call) + ": " + std::generic_category().message(errno));
  }

  Fd epoll_{::epoll_create1(EPOLL_CLOEXEC), "epoll_create1"};
};

}  // namespace internal
}  // namespace tensorbus::inline v0
