#include "tensorbus/platform/waiting/poller.hpp"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <ctime>

#include "tensorbus/platform/limits.hpp"

namespace tensorbus::platform {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLongWait{20};  // long enough that one millisecond does not matter

epoll_event event_of(std::uint64_t tag, Interest interest) {
  epoll_event event{};
  event.events = (interest.readable ? EPOLLIN : 0U) | (interest.writable ? EPOLLOUT : 0U);
  event.data.u64 = tag;
  return event;
}

}  // namespace

Poller::Poller() : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
  if (!epoll_) throw_system("epoll_create1", errno);
}

void Poller::add(int fd, std::uint64_t tag, Interest interest) {
  epoll_event event = event_of(tag, interest);
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) < 0)
    throw_system("epoll_ctl", errno, During::kPolling);
}

void Poller::modify(int fd, std::uint64_t tag, Interest interest) {
  epoll_event event = event_of(tag, interest);
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event) < 0) throw_system("epoll_ctl", errno);
}

void Poller::remove(int fd) noexcept { ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr); }

std::span<const std::uint64_t> Poller::wait(std::chrono::milliseconds timeout) {
  return {ready_.data(), wait_ms(static_cast<int>(timeout.count()), ready_).count};
}

Poller::Ready Poller::wait(std::chrono::nanoseconds timeout, Tags& ready) const {
  // epoll_wait() counts milliseconds; epoll_pwait2() needs a newer kernel.
  if (timeout >= kLongWait)
    return wait_ms(static_cast<int>(std::chrono::floor<milliseconds>(timeout).count()), ready);
  if (timeout.count() <= 0) return wait_ms(0, ready);
  pollfd self{epoll_.get(), POLLIN, 0};
  const timespec left{.tv_sec = 0, .tv_nsec = timeout.count()};
  const int count = ::ppoll(&self, 1, &left, nullptr);
  if (count < 0 && errno != EINTR) throw_system("ppoll", errno);
  return count > 0 ? wait_ms(0, ready) : Ready{.interrupted = count < 0};
}

Poller::Ready Poller::wait_ms(int timeout, Tags& ready) const {
  std::array<epoll_event, std::tuple_size_v<Tags>> events{};
  const int count =
      ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), timeout);
  if (count < 0) {
    if (errno != EINTR) throw_system("epoll_wait", errno);
    return {.interrupted = true};
  }
  for (int i = 0; i < count; ++i) ready[i] = events[i].data.u64;
  return {.count = static_cast<std::size_t>(count)};
}

}  // namespace tensorbus::platform
