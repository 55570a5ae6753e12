#pragma once

#include <unistd.h>

#include <cstddef>
#include <utility>

#include "tensorbus/platform/fork_guard.hpp"

namespace tensorbus::platform {

// Owns one file descriptor. A child that is forked while it is open closes it: if the child kept
// the bus's sockets open, peers would not notice the death of its parent.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) noexcept : fd_(fd) { close_in_child(fd_); }
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) close_and_set(std::exchange(other.fd_, -1));
    return *this;
  }
  ~Fd() { reset(); }

  int get() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }
  // Gives the descriptor to the caller; forked children no longer close it.
  int release() noexcept {
    keep_in_child(fd_);
    return std::exchange(fd_, -1);
  }
  void reset() noexcept { close_and_set(-1); }

 private:
  void close_and_set(int fd) noexcept {
    if (fd_ >= 0) {
      keep_in_child(fd_);
      ::close(fd_);
    }
    fd_ = fd;
  }

  int fd_ = -1;
};

// Returns another descriptor of the same open file, close-on-exec.
Fd duplicate(int fd);

// Returns a non-blocking eventfd with the value 0.
Fd make_event();
void signal_event(int event_fd) noexcept;
void clear_event(int event_fd) noexcept;

// Returns a pidfd of the calling process; empty if the kernel has none.
Fd open_own_pidfd() noexcept;

// Returns how many descriptors this process has open. It makes one system call since Linux 6.2; on
// older kernels it lists all descriptors, so it is not for hot paths.
std::size_t open_descriptors() noexcept;

// Returns true if a descriptor from a peer is a pidfd, by its name under /proc/self/fd.
bool is_pidfd(int fd) noexcept;

}  // namespace tensorbus::platform
