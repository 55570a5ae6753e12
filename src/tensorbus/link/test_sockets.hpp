#pragma once

// A connected pair of sockets, as a borrower and an owner have one.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>
#include <vector>

#include "tensorbus/platform/fd.hpp"
#include "tensorbus/platform/unix_socket.hpp"

namespace tensorbus::link::testing {

struct SocketPair {
  platform::Fd one;
  platform::Fd other;
};

inline SocketPair connected_sockets() {
  int fds[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) < 0)
    std::abort();
  return {platform::Fd(fds[0]), platform::Fd(fds[1])};
}

// The reading end of a pipe: a descriptor that is no shared memory.
inline platform::Fd some_pipe() {
  int fds[2] = {-1, -1};
  if (::pipe2(fds, O_CLOEXEC) < 0) std::abort();
  ::close(fds[1]);
  return platform::Fd(fds[0]);
}

inline platform::Fd unsealed_memfd(std::size_t bytes) {
  platform::Fd fd(::memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) < 0) std::abort();
  return fd;
}

template <typename... More>
std::vector<platform::Fd> fds_of(More... more) {
  std::vector<platform::Fd> fds;
  (fds.push_back(std::move(more)), ...);
  return fds;
}

}  // namespace tensorbus::link::testing
