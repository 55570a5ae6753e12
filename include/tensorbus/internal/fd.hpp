#pragma once

#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>
#include <tensorbus/values/error.hpp>
#include <utility>

namespace tensorbus::inline v0 {
namespace internal {

// Owns a file descriptor.
class Fd {
 public:
  // Takes the result of a system call. Throws Error(kSystem) that names the call if it failed.
  Fd(int fd, const char* call) : fd_(fd) {
    if (fd < 0)
      throw Error(Code::kSystem, std::string(call) + ": " + std::generic_category().message(errno));
  }
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Fd() {
    if (fd_ >= 0) ::close(fd_);
  }

  int get() const noexcept { return fd_; }

 private:
  int fd_;
};

}  // namespace internal
}  // namespace tensorbus::inline v0
