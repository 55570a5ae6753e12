#pragma once

#include <cstdint>

#include "tensorbus/platform/atomic.hpp"

namespace tensorbus::platform {

// A word in shared memory tells other processes that a thread lives, without a system call. The
// kernel changes it when the thread ends, however that happens, exec and SIGKILL included, and
// before the thread's process can be waited for: it is a robust futex (set_robust_list(2)) that the
// thread holds as long as it lives.

// Marks the calling thread as alive in the word. Once for a thread, which may hold no robust mutex
// of its own. The word is kept mapped until the thread ends. Does nothing if the kernel refuses.
void mark_alive(Atomic<std::uint32_t>& word) noexcept;

// Returns true if the word's thread is alive; false also if it was never marked.
bool marked_alive(const Atomic<std::uint32_t>& word) noexcept;

}  // namespace tensorbus::platform
