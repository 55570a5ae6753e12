#pragma once

#include <sys/epoll.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <span>

#include "tensorbus/platform/fd.hpp"

namespace tensorbus::platform {

// The events that make a descriptor ready; a hang-up always does.
struct Interest {
  bool readable = true;
  bool writable = false;
};

// epoll with 64-bit tags.
class Poller {
 public:
  Poller();

  void add(int fd, std::uint64_t tag, Interest interest = {});
  void modify(int fd, std::uint64_t tag, Interest interest);
  void remove(int fd) noexcept;

  // Returns the tags that are ready; the span is valid until the next call.
  std::span<const std::uint64_t> wait(std::chrono::milliseconds timeout);

  // As wait(), but callable in any thread: writes the tags to `ready`. A signal ends the wait.
  struct Ready {
    std::size_t count = 0;
    bool interrupted = false;
  };
  using Tags = std::array<std::uint64_t, 64>;
  Ready wait(std::chrono::nanoseconds timeout, Tags& ready) const;

  int fd() const noexcept { return epoll_.get(); }

 private:
  Ready wait_ms(int timeout, Tags& ready) const;

  Fd epoll_;
  Tags ready_{};
};

}  // namespace tensorbus::platform
