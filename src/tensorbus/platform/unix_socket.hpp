#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "tensorbus/platform/fd.hpp"

namespace tensorbus::platform {

// Non-blocking Unix sockets of type SOCK_SEQPACKET in an open directory. Names are resolved through
// the directory's descriptor, because its path may not fit into sockaddr_un.

// Binds and listens under `temporary`, then renames it to `name`.
Fd listen_in(int directory, const std::string& temporary, const std::string& name);

enum class Connect { kDone, kBusy, kDead };
struct Connection {
  Connect outcome = Connect::kDead;
  Fd socket;
};
// kBusy: the listener is alive, but its backlog is full. kDead: no process listens there.
Connection connect_in(int directory, const std::string& name);

// Returns a waiting connection, or an empty Fd if none waits. Throws Error(kOutOfMemory) that names
// the limit if one waits and descriptors or memory are short.
Fd accept_from(int listener);

// Two connected sockets of this process.
struct SocketPair {
  Fd first;
  Fd second;
};
// Throws as accept_from().
SocketPair make_socket_pair();

struct Credentials {
  pid_t pid = 0;
  uid_t uid = 0;
};
Credentials peer_credentials(int socket);

enum class Transfer { kDone, kWouldBlock, kEnded };

inline constexpr std::size_t kMaxFdsPerMessage = 16;

// Returns true if no process would read a datagram that is sent now.
bool peer_has_hung_up(int socket) noexcept;

// Sends one datagram with at most kMaxFdsPerMessage descriptors. kEnded: the peer has closed.
Transfer send_datagram(int socket, std::span<const std::byte> bytes, std::span<const int> fds);

// Waits until a datagram may fit, at most for the time `most`.
void wait_until_writable(int socket, std::chrono::nanoseconds most) noexcept;

struct Datagram {
  std::vector<std::byte> bytes;
  std::vector<Fd> fds;
  bool truncated = false;  // it had more bytes or descriptors than asked for
};
// Throws Error(kOutOfMemory) if this process lacks free descriptors for those of the datagram,
// which then stays in the socket.
Transfer receive_datagram(int socket, std::size_t max_bytes, std::size_t max_fds,
                          Datagram& datagram);

// Drains a socket that is to be closed with unread datagrams. Afterwards nothing can arrive, and no
// unread descriptor can delay the close.
void discard_unread(int socket) noexcept;

}  // namespace tensorbus::platform
