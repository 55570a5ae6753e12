#include "tensorbus/platform/unix_socket.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "tensorbus/platform/check.hpp"
#include "tensorbus/platform/kill_point.hpp"
#include "tensorbus/platform/limits.hpp"

namespace tensorbus::platform {
namespace {

constexpr int kMaxUnread = 100'000;           // more than a socket's buffer holds
constexpr std::size_t kMaxFdsReceived = 253;  // SCM_MAX_FD: the kernel's limit for one datagram

struct ControlBuffer {
  alignas(cmsghdr) char bytes[CMSG_SPACE(sizeof(int) * kMaxFdsReceived)] = {};
};

// Calls take(fd) for each descriptor that came with a datagram. Turns lingering off: closing the
// last descriptor of a socket with SO_LINGER would wait for its network.
template <typename Take>
void for_each_descriptor(msghdr& message, Take take) {
  constexpr linger kNoLinger{};
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof fd);
      ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &kNoLinger, sizeof kNoLinger);
      take(fd);
    }
  }
}

// "/proc/self/fd/<directory>/<name>" is short, however long the path of the directory is.
sockaddr_un address_of(int directory, const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = "/proc/self/fd/" + std::to_string(directory) + "/" + name;
  if (path.size() >= sizeof address.sun_path)
    throw Error(Code::kInvalidArgument, "socket name too long: " + name);
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

// Throws if the path of address_of() cannot exist.
void require_proc() {
  if (::access("/proc/self/fd", F_OK) != 0)
    throw Error(Code::kUnsupported,
                "/proc is not mounted, which Tensorbus needs: mount it (mount -t proc proc /proc)");
}

Fd make_socket() {
  Fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) throw_system("socket", errno);
  return socket;
}

bool peer_is_gone(int error_number) {
  return error_number == EPIPE || error_number == ECONNRESET || error_number == ENOTCONN;
}

bool has_input(int socket) noexcept {
  pollfd entry{socket, POLLIN, 0};
  return ::poll(&entry, 1, 0) == 1;
}

// Removes the datagram that was peeked.
void take_off(int socket) noexcept {
  while (::recv(socket, nullptr, 0, 0) < 0 && (errno == EINTR || errno == ECONNRESET)) {
  }
}

}  // namespace

Fd listen_in(int directory, const std::string& temporary, const std::string& name) {
  Fd socket = make_socket();
  const sockaddr_un address = address_of(directory, temporary);
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) < 0) {
    const int error_number = errno;
    require_proc();
    throw_system("cannot create a socket in the domain directory", error_number,
                 During::kDirectory);
  }
  kill_point("socket.bound");
  if (::listen(socket.get(), SOMAXCONN) < 0) throw_system("listen", errno);
  kill_point("socket.listening");
  if (::renameat(directory, temporary.c_str(), directory, name.c_str()) < 0)
    throw_system("cannot name a socket in the domain directory", errno, During::kDirectory);
  return socket;
}

Connection connect_in(int directory, const std::string& name) {
  Fd socket = make_socket();
  const sockaddr_un address = address_of(directory, name);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0)
    return {Connect::kDone, std::move(socket)};
  switch (errno) {
    case EAGAIN:
    case EINTR:
      return {Connect::kBusy, {}};
    case ECONNREFUSED:
    case ENOENT:
    case EPROTOTYPE:
    case ENOTSOCK:
      return {Connect::kDead, {}};
    default:
      throw_system("connecting to " + name, errno);
  }
}

Fd accept_from(int listener) {
  Fd socket(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  const bool short_of =
      !socket && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM);
  const int error = errno;
  // The kernel allocates a descriptor before it checks whether a connection is waiting.
  if (short_of && has_input(listener)) throw_system("accepting a connection", error);
  return socket;
}

SocketPair make_socket_pair() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) < 0)
    throw_system("socketpair", errno);
  return {Fd(ends[0]), Fd(ends[1])};
}

Credentials peer_credentials(int socket) {
  ucred credentials{};
  socklen_t length = sizeof credentials;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) < 0)
    throw_system("SO_PEERCRED", errno);
  return {credentials.pid, credentials.uid};
}

void wait_until_writable(int socket, std::chrono::nanoseconds most) noexcept {
  pollfd polled{socket, POLLOUT, 0};
  const auto seconds = std::chrono::floor<std::chrono::seconds>(most);
  const timespec timeout{.tv_sec = static_cast<time_t>(seconds.count()),
                         .tv_nsec = static_cast<long>((most - seconds).count())};
  (void)::ppoll(&polled, 1, &timeout, nullptr);
}

Transfer send_datagram(int socket, std::span<const std::byte> bytes, std::span<const int> fds) {
  iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxFdsPerMessage)] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  check(fds.size() <= kMaxFdsPerMessage);
  if (!fds.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(sizeof(int) * fds.size());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int) * fds.size());
    std::memcpy(CMSG_DATA(header), fds.data(), sizeof(int) * fds.size());
  }
  while (::sendmsg(socket, &message, MSG_NOSIGNAL) < 0) {
    if (errno == EINTR) continue;
    // ETOOMANYREFS: too many descriptors of this process are in flight. They drain, as a full
    // socket does. Lack of kernel memory has the same result.
    if (errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM || errno == ETOOMANYREFS)
      return Transfer::kWouldBlock;
    if (peer_is_gone(errno)) return Transfer::kEnded;
    throw_system("sendmsg", errno);
  }
  return Transfer::kDone;
}

bool peer_has_hung_up(int socket) noexcept {
  pollfd entry{socket, POLLRDHUP, 0};
  return ::poll(&entry, 1, 0) == 1 && (entry.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

Transfer receive_datagram(int socket, std::size_t max_bytes, std::size_t max_fds,
                          Datagram& datagram) {
  datagram.bytes.resize(max_bytes);
  datagram.fds.clear();
  datagram.fds.reserve(kMaxFdsReceived);
  iovec part{datagram.bytes.data(), max_bytes};
  ControlBuffer control;
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof control.bytes;
  ssize_t length = 0;
  // Peeks first: descriptors that exceed this process's limit would be lost with the datagram.
  while ((length = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_PEEK)) < 0) {
    // ECONNRESET is returned once if the peer ended with unread data from this process. The data
    // that the peer sent before can still be read.
    if (errno == EINTR || errno == ECONNRESET) continue;
    if (errno == EAGAIN) return Transfer::kWouldBlock;
    if (peer_is_gone(errno)) return Transfer::kEnded;
    throw_system("recvmsg", errno);
  }
  for_each_descriptor(message, [&](int fd) { datagram.fds.emplace_back(fd); });
  const bool lost_some = (message.msg_flags & MSG_CTRUNC) != 0;
  if (lost_some) {
    datagram.fds.clear();
    throw_system("cannot take the descriptors that a peer sent", EMFILE, During::kAnything);
  }
  if (length == 0 && datagram.fds.empty()) return Transfer::kEnded;
  take_off(socket);
  datagram.bytes.resize(static_cast<std::size_t>(length));
  datagram.truncated = (message.msg_flags & MSG_TRUNC) != 0 || datagram.fds.size() > max_fds;
  return Transfer::kDone;
}

void discard_unread(int socket) noexcept {
  ::shutdown(socket, SHUT_RD);
  ControlBuffer control;
  msghdr message{};
  message.msg_control = control.bytes;
  for (int i = 0; i < kMaxUnread; ++i) {
    message.msg_controllen = sizeof control.bytes;
    const ssize_t length = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (length < 0 && errno != EINTR && errno != ECONNRESET) return;
    if (length < 0) continue;
    for_each_descriptor(message, [](int fd) { ::close(fd); });
    const bool something = (message.msg_flags & MSG_TRUNC) != 0 || message.msg_controllen != 0;
    if (!something) return;
  }
}

}  // namespace tensorbus::platform
