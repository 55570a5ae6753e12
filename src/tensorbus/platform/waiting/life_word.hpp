#pragma once

#include <cstdint>

#include "tensorbus/platform/atomic.hpp"

namespace tensorbus::platform {

// A word in shared memory that shows other processes, without a system call, whether a thread is
// alive. It is a robust futex (set_robust_list(2)) that the thread holds until it ends. The kernel
// changes the word when the thread ends in any way, including exec and SIGKILL, and before the
// thread's process can be waited for.

// Marks the calling thread as alive in the word. A thread may do this once, and may hold no other
// robust mutex. The word stays mapped until the thread ends. Does nothing if the kernel refuses.
void mark_alive(Atomic<std::uint32_t>& word) noexcept;

// Returns true if the word's thread is alive, false if it has ended or was never marked.
bool marked_alive(const Atomic<std::uint32_t>& word) noexcept;

}  // namespace tensorbus::platform
