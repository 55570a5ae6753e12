#pragma once

#include "tensorbus/platform/fd.hpp"

namespace tensorbus::platform {

// Wakes a process that polls: one end is listened to, the other is handed to the one peer that may
// notify. A pair of sockets and not an eventfd: a peer that has an eventfd can make the next write
// to it wait, and can read away what another one wrote.
struct Notifier {
  Fd listener;
  Fd sender;
};

// Throws Error(kSystem).
Notifier make_notifier();
// Never waits, whatever was done to the other end.
void notify(int sender) noexcept;
// Takes all notifications. False: nobody can notify any more.
[[nodiscard]] bool drain(int listener) noexcept;
// Is what a peer handed over safe to write to?
bool is_notifier_sender(int fd) noexcept;

}  // namespace tensorbus::platform
