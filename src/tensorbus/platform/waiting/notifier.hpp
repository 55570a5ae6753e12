#pragma once

#include "tensorbus/platform/fd.hpp"

namespace tensorbus::platform {

// Wakes a process that polls the listener; the sender is given to the one peer that may notify. A
// pair of sockets, not an eventfd: with an eventfd, a peer could make the next write block, and
// could read notifications that are not its own.
struct Notifier {
  Fd listener;
  Fd sender;
};

// Throws Error(kSystem).
Notifier make_notifier();
// Never waits, whatever the peer does with the other end.
void notify(int sender) noexcept;
// Takes all notifications. Returns false if there can be no more.
[[nodiscard]] bool drain(int listener) noexcept;
// Returns true if a descriptor from a peer is safe to write to.
bool is_notifier_sender(int fd) noexcept;
// Throws Error(kProtocol) if is_notifier_sender() returns false.
void require_notifier(const Fd& notifier);

}  // namespace tensorbus::platform
