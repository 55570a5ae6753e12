#pragma once

#include "tensorbus/platform/fd.hpp"

namespace tensorbus::platform {

// Wakes a process that polls the listener. Only the peer that may notify gets the sender. This is a
// pair of sockets, not an eventfd: with an eventfd, a peer could make the next write block, and
// could read notifications of other peers.
struct Notifier {
  Fd listener;
  Fd sender;
};

// Throws Error(kSystem).
Notifier make_notifier();
// Never waits, even if the peer does not read.
void notify(int sender) noexcept;
// Takes up to 256 pending notifications. Returns false if no more can come: every sender is closed.
[[nodiscard]] bool drain(int listener) noexcept;
// Returns true if a descriptor from a peer is safe to write to.
bool is_notifier_sender(int fd) noexcept;
// Throws Error(kProtocol) if is_notifier_sender() returns false.
void require_notifier(const Fd& notifier);

}  // namespace tensorbus::platform
