#pragma once

// A connected pair of sockets, as a borrower and an owner have one.

#include <fcntl.h>
#include <netinet/in.h>
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

// Returns the reading end of a pipe: a descriptor that is not shared memory.
inline platform::Fd some_pipe() {
  int fds[2] = {-1, -1};
  if (::pipe2(fds, O_CLOEXEC) < 0) std::abort();
  ::close(fds[1]);
  return platform::Fd(fds[0]);
}

// Makes sockets whose last close waits for a network that accepts nothing.
class LingeringSockets {
 public:
  platform::Fd operator()() {
    const platform::Fd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::listen(listener.get(), 1) < 0) std::abort();
    sockaddr_in address{};
    socklen_t length = sizeof address;
    ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &length);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    platform::Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), length) < 0) std::abort();
    readers_.emplace_back(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    const std::vector<char> unread(1 << 20);
    while (::send(socket.get(), unread.data(), unread.size(), MSG_DONTWAIT) > 0) {
    }
    const linger for_long{.l_onoff = 1, .l_linger = 3600};
    ::setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &for_long, sizeof for_long);
    return socket;
  }

 private:
  std::vector<platform::Fd> readers_;  // they read nothing
};

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
