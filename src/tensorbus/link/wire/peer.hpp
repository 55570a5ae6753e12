#pragma once

#include <string>
#include <tensorbus/values/id.hpp>

#include "tensorbus/link/wake/wake.hpp"
#include "tensorbus/link/wire/channel.hpp"
#include "tensorbus/link/wire/connection_messages.hpp"
#include "tensorbus/memory/peer_budget.hpp"
#include "tensorbus/platform/fd.hpp"

namespace tensorbus::link {

// The participant at the other end of a connection: the checked values of its HELLO.
struct Peer {
  Id id;
  std::uint32_t pid = 0;
  platform::Fd pidfd;  // empty if none was sent: only a hang-up of the socket shows its end
  PeerWakePage wake_page;
  platform::Fd lineage;  // see platform/fork/lineage.hpp; empty if none was sent
};

// The cost of a connection: a socket, a pidfd, a wake page, and a timeline if GPUs are used.
inline constexpr memory::PeerCost kConnectionCost{
    .descriptors = 2, .mappings = 2, .address_bytes = 2 * kWakePageBytes, .memory_bytes = 16384};

// Sends this participant's HELLO. `lineage` is platform::own_lineage(), or empty.
void send_hello(Channel& channel, const Id& self, const WakePage& wake_page,
                platform::Fd lineage = {});

// Throws Error(kPermission) if the process at the other end belongs to another user.
void check_same_user(int socket);
// Returns true if the other end is in this process, according to the kernel.
bool is_this_process(int socket);

// Sends a newly connected peer the reason why there is no room for it, and discards its messages.
void turn_away(int socket, const std::string& why) noexcept;

// Checks a HELLO and its descriptors. Throws Error(kVersionMismatch) that names both versions, or
// Error(kProtocol) for any other fault.
Peer accept_hello(Channel::Received& received);

}  // namespace tensorbus::link
