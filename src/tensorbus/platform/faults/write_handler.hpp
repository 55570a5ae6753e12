#pragma once

#include <string_view>

namespace tensorbus::platform {

// The handler for SIGSEGV, which write_fault.cpp and private_pages.cpp share.

inline constexpr std::string_view kTurnedOff =
    "TENSORBUS_FAULT_MESSAGE=0 turns this message off.\n";

// Installs the handler, once for the process.
void install_write_handler() noexcept;

// Makes the page of a CopyOnWrite private; runs in the signal handler. Returns false if no
// CopyOnWrite has this address, and if there is no room. With `tells`, stderr gets the reason.
bool mend_write(const void* address, bool tells) noexcept;

}  // namespace tensorbus::platform
