#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "tensorbus/platform/fd.hpp"

namespace tensorbus::platform {

// Unix sockets of type SOCK_SEQPACKET, non-blocking, in a directory that is already open. Names are
// resolved through the directory's descriptor where the path would not fit into sockaddr_un.

// Binds and listens under `temporary`, then renames it to `name`.
Fd listen_in(int directory, const std::string& temporary, const std::string& name);

enum class Connect { kDone, kBusy, kDead };
struct Connection {
  Connect outcome = Connect::kDead;
  Fd socket;
};
// kBusy: alive, but its backlog is full. kDead: nobody listens there.
Connection connect_in(int directory, const std::string& name);

// A waiting connection, or an empty Fd. Throws Error(kOutOfMemory) that names the
// limit when descriptors or memory are short.
Fd accept_from(int listener);

struct Credentials {
  pid_t pid = 0;
  uid_t uid = 0;
};
Credentials peer_credentials(int socket);

enum class Transfer { kDone, kWouldBlock, kEnded };

inline constexpr std::size_t kMaxFdsPerMessage = 16;

// Would what is sent now be read by nobody?
bool peer_has_hung_up(int socket) noexcept;

// Sends one datagram with descriptors, at most so many. kEnded: the other side is gone.
Transfer send_datagram(int socket, std::span<const std::byte> bytes, std::span<const int> fds);

// Until a datagram may find room, for so long at most.
void wait_until_writable(int socket, std::chrono::nanoseconds most) noexcept;

struct Datagram {
  std::vector<std::byte> bytes;
  std::vector<Fd> fds;
  bool truncated = false;  // longer, or with more descriptors, than asked for
};
// Throws Error(kOutOfMemory) when this process has no descriptors left for those that came; the
// datagram is still there then.
Transfer receive_datagram(int socket, std::size_t max_bytes, std::size_t max_fds,
                          Datagram& datagram);

// Before a socket is closed with datagrams that nobody read: nothing more comes, and what their
// descriptors are of cannot make us wait.
void discard_unread(int socket) noexcept;

}  // namespace tensorbus::platform
