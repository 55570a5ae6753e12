#include "tensorbus/bus/event_loop/polled_event.hpp"

#include <poll.h>

namespace tensorbus::bus {

PolledEvent::PolledEvent() : own_(platform::make_event()) {
  poller_.add(own_.get(), static_cast<std::uint64_t>(own_.get()));
  signal();
}

void PolledEvent::listen_to(const platform::Fd& listener) {
  poller_.add(listener.get(), static_cast<std::uint64_t>(listener.get()));
}

bool PolledEvent::readable() const noexcept {
  pollfd self{fd(), POLLIN, 0};
  return ::poll(&self, 1, 0) == 1;
}

void PolledEvent::clear() {
  for (const std::uint64_t tag : poller_.wait(std::chrono::milliseconds::zero())) {
    const int fd = static_cast<int>(tag);
    if (fd == own_.get())
      platform::clear_event(fd);
    else if (!platform::drain(fd))
      poller_.remove(fd);  // the peer is gone, or its end was shut down
  }
}

}  // namespace tensorbus::bus
