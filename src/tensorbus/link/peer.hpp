#pragma once

#include <memory>

#include "tensorbus/link/channel.hpp"
#include "tensorbus/link/wake.hpp"
#include "tensorbus/platform/fd.hpp"
#include "tensorbus/platform/id.hpp"

namespace tensorbus::link {

// Who is at the other end of a connection, as its HELLO said and as far as it could be checked.
struct Peer {
  Id id;
  std::uint32_t pid = 0;
  platform::Fd pidfd;  // empty if the peer has none: then the socket's end alone tells its death
  PeerWakePage wake_page;
};

// Sends who we are.
void send_hello(Channel& channel, const Id& self, const WakePage& wake_page);

// Throws Error(kPermission) if the process at the other end belongs to somebody else.
void check_same_user(int socket);
// Is the other end a participant of this process? Asks the kernel, not the peer.
bool is_this_process(int socket);

// Checks a HELLO and what came with it. Throws Error(kVersionMismatch) that names both versions,
// Error(kProtocol) for anything else.
Peer accept_hello(Channel::Received& received);

}  // namespace tensorbus::link
