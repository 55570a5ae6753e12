#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "tensorbus/platform/fd.hpp"

namespace tensorbus::platform {

// Non-blocking Unix sockets of type SOCK_SEQPACKET, in a directory that is already open. A name is
// resolved through the directory's descriptor, because the path may not fit into sockaddr_un.

// Binds and listens under `temporary`, then renames it to `name`.
Fd listen_in(int directory, const std::string& temporary, const std::string& name);

enum class Connect { kDone, kBusy, kDead };
struct Connection {
  Connect outcome = Connect::kDead;
  Fd socket;
};
// kBusy: the listener lives, but its backlog is full. kDead: no process listens there.
Connection connect_in(int directory, const std::string& name);

// Returns a waiting connection, or an empty Fd. Throws Error(kOutOfMemory) that names the limit if
// descriptors or memory are short.
Fd accept_from(int listener);

// Two sockets of this process that are connected with each other.
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

// Returns true if nobody would read what is sent now.
bool peer_has_hung_up(int socket) noexcept;

// Sends one datagram with at most kMaxFdsPerMessage descriptors. kEnded: the other side is gone.
Transfer send_datagram(int socket, std::span<const std::byte> bytes, std::span<const int> fds);

// Waits until a datagram may fit, for at most the time `most`.
void wait_until_writable(int socket, std::chrono::nanoseconds most) noexcept;

struct Datagram {
  std::vector<std::byte> bytes;
  std::vector<Fd> fds;
  bool truncated = false;  // it had more bytes or descriptors than asked for
};
// Throws Error(kOutOfMemory) if this process has too few descriptors left for those that came; the
// datagram then stays in the socket.
Transfer receive_datagram(int socket, std::size_t max_bytes, std::size_t max_fds,
                          Datagram& datagram);

// Drains a socket before it is closed with unread datagrams. Nothing more can arrive afterwards,
// and the unread descriptors cannot make the close wait.
void discard_unread(int socket) noexcept;

}  // namespace tensorbus::platform
