#include "tensorbus/platform/waiting/poller.hpp"

#include <cerrno>

#include "tensorbus/platform/error.hpp"

namespace tensorbus::platform {
namespace {

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
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) < 0) throw_system("epoll_ctl", errno);
}

void Poller::modify(int fd, std::uint64_t tag, Interest interest) {
  epoll_event event = event_of(tag, interest);
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event) < 0) throw_system("epoll_ctl", errno);
}

void Poller::remove(int fd) noexcept { ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr); }

std::span<const std::uint64_t> Poller::wait(std::chrono::milliseconds timeout) {
  std::array<epoll_event, 64> events{};
  const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                                 static_cast<int>(timeout.count()));
  if (count < 0) {
    if (errno != EINTR) throw_system("epoll_wait", errno);
    return {};
  }
  for (int i = 0; i < count; ++i) ready_[i] = events[i].data.u64;
  return {ready_.data(), static_cast<std::size_t>(count)};
}

}  // namespace tensorbus::platform
