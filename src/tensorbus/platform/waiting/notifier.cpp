#include "tensorbus/platform/waiting/notifier.hpp"

#include <sys/socket.h>

#include <array>
#include <cerrno>

#include "tensorbus/platform/error.hpp"

namespace tensorbus::platform {
namespace {

int socket_option(int fd, int option) noexcept {
  int value = -1;
  socklen_t length = sizeof value;
  return ::getsockopt(fd, SOL_SOCKET, option, &value, &length) == 0 ? value : -1;
}

}  // namespace

Notifier make_notifier() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) < 0)
    throw_system("socketpair", errno);
  return {Fd(ends[0]), Fd(ends[1])};
}

void notify(int sender) noexcept {
  const char once = 1;
  // EAGAIN: the socket is full, so the listener will wake up in any case.
  [[maybe_unused]] const ssize_t sent =
      ::send(sender, &once, sizeof once, MSG_DONTWAIT | MSG_NOSIGNAL);
}

bool drain(int listener) noexcept {
  std::array<char, 256> bytes;
  const ssize_t length = ::recv(listener, bytes.data(), bytes.size(), MSG_DONTWAIT);
  return length > 0 || (length < 0 && (errno == EAGAIN || errno == EINTR));
}

bool is_notifier_sender(int fd) noexcept {
  // Only a Unix stream socket is safe: a datagram socket could be connected elsewhere, and a
  // network socket may wait for a remote host before it takes a byte.
  return socket_option(fd, SO_DOMAIN) == AF_UNIX && socket_option(fd, SO_TYPE) == SOCK_STREAM;
}

void require_notifier(const Fd& notifier) {
  if (!is_notifier_sender(notifier.get()))
    throw Error(Code::kProtocol, "notifier: expected a Unix stream socket, got something else");
}

}  // namespace tensorbus::platform
