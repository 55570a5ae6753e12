#pragma once

#include <memory>
#include <string>
#include <tensorbus/id.hpp>

#include "tensorbus/link/wake/wake.hpp"
#include "tensorbus/link/wire/channel.hpp"
#include "tensorbus/link/wire/connection_messages.hpp"
#include "tensorbus/memory/peer_budget.hpp"
#include "tensorbus/platform/fd.hpp"

namespace tensorbus::link {

// Who is at the other end of a connection, as its HELLO said and as far as it could be checked.
struct Peer {
  Id id;
  std::uint32_t pid = 0;
  platform::Fd pidfd;  // empty if the peer has none: then the socket's end alone tells its death
  PeerWakePage wake_page;
  platform::Fd lineage;  // platform/lineage.hpp; empty if the peer says nothing of its children
};

// What a connection takes: its socket and a pidfd; a wake page, and a timeline if GPUs are used.
inline constexpr memory::PeerCost kConnectionCost{
    .descriptors = 2, .mappings = 2, .address_bytes = 2 * kWakePageBytes, .memory_bytes = 16384};

// Sends who we are. `lineage`: platform::own_lineage(), or none.
void send_hello(Channel& channel, const Id& self, const WakePage& wake_page,
                platform::Fd lineage = {});

// Throws Error(kPermission) if the process at the other end belongs to somebody else.
void check_same_user(int socket);
// Is the other end a participant of this process? Asks the kernel, not the peer.
bool is_this_process(int socket);

// Tells who connected why there is no room for it now, before anything was said, and hears no more
// from it.
void turn_away(int socket, const std::string& why) noexcept;

// Checks a HELLO and what came with it. Throws Error(kVersionMismatch) that names both versions,
// Error(kProtocol) for anything else.
Peer accept_hello(Channel::Received& received);

}  // namespace tensorbus::link
