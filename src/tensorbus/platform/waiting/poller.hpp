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

  int fd() const noexcept { return epoll_.get(); }

 private:
  Fd epoll_;
  std::array<std::uint64_t, 64> ready_{};
};

}  // namespace tensorbus::platform
