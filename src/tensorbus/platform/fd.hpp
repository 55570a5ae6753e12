#pragma once

#include <unistd.h>

#include <cstddef>
#include <utility>

#include "tensorbus/platform/fork_guard.hpp"

namespace tensorbus::platform {

// Owns one file descriptor, which is closed in every child that is forked while it is open (a
// child that held the bus's sockets would hide its parent's death).
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
  // Hands the descriptor to the caller; children inherit it again.
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

// Another descriptor of the same open file, close-on-exec.
Fd duplicate(int fd);

// An eventfd, non-blocking, at 0.
Fd make_event();
void signal_event(int event_fd) noexcept;
void clear_event(int event_fd) noexcept;

// A pidfd of the calling process; empty where the kernel has none.
Fd open_own_pidfd() noexcept;

// How many descriptors this process has open. One system call from Linux 6.2 on, else a look at all
// of them: not for hot paths.
std::size_t open_descriptors() noexcept;

// What a peer handed over: is it what it says? By the name the kernel gives it under /proc/self/fd.
bool is_pidfd(int fd) noexcept;

}  // namespace tensorbus::platform
