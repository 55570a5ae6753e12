#pragma once

#include "tensorbus/platform/fd.hpp"

namespace tensorbus::platform {

// Wakes a process that polls: one end is listened to, the other is handed to the one peer that may
// ring. A pair of sockets and not an eventfd, because whoever has an eventfd can make the next
// write to it wait, and can read away what another wrote.
struct Notifier {
  Fd listener;
  Fd sender;
};

// Throws Error(kSystem).
Notifier make_notifier();
// Never waits, whatever was done to the other end.
void notify(int sender) noexcept;
// Takes what was rung. False: nobody can ring any more.
[[nodiscard]] bool drain(int listener) noexcept;
// Is what a peer handed over safe to ring?
bool is_notifier_sender(int fd) noexcept;

}  // namespace tensorbus::platform
