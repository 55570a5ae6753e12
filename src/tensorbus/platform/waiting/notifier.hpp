#pragma once

#include "tensorbus/platform/fd.hpp"

namespace tensorbus::platform {

// Wakes a process that polls. The process polls the listener; the sender is given to the one peer
// that may notify. A pair of sockets and not an eventfd: a peer with an eventfd could make the next
// write to it block, and could read the notifications of others.
struct Notifier {
  Fd listener;
  Fd sender;
};

// Throws Error(kSystem).
Notifier make_notifier();
// Never waits, whatever the peer did to the other end.
void notify(int sender) noexcept;
// Takes all notifications. Returns false if nobody can notify any more.
[[nodiscard]] bool drain(int listener) noexcept;
// Returns true if a descriptor from a peer is safe to write to.
bool is_notifier_sender(int fd) noexcept;
// Throws Error(kProtocol) unless it is.
void require_notifier(const Fd& notifier);

}  // namespace tensorbus::platform
