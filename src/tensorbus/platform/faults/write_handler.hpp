#pragma once

#include <string_view>

namespace tensorbus::platform {

// The handler for SIGSEGV, which write_fault.cpp and private_pages.cpp share.

inline constexpr std::string_view kTurnedOff =
    "TENSORBUS_FAULT_MESSAGE=0 turns this message off.\n";

// Does nothing if the handler is already installed.
void install_write_handler() noexcept;
// Makes the next install_write_handler() check whether the application has installed another
// handler since, and install ours before it.
void look_for_write_handler() noexcept;

// Makes the page of a CopyOnWrite private; runs in the signal handler. Returns false if no
// CopyOnWrite has this address, if there is no room, or if the memory is pinned. With `tells`, it
// writes the reason to stderr.
bool mend_write(const void* address, bool tells) noexcept;

// Called in a forked child before it closes descriptors. Makes the pages of every CopyOnWrite
// private, so the child needs no handler: PyTorch's DataLoader installs its own there.
void make_private_in_child() noexcept;

}  // namespace tensorbus::platform
