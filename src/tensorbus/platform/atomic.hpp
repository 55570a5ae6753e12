#pragma once

#include <atomic>

// The atomics of what two processes, or two threads, do in turn without a lock: std::atomic. The
// tests of memory orders compile the same code with atomics of a model, which they include before
// everything else (tests/model/weak_memory). So the orders in the code are the ones that are
// tested.
#ifndef TENSORBUS_ATOMICS_OF_A_MODEL
namespace tensorbus::platform {

template <typename T>
using Atomic = std::atomic<T>;

inline void atomic_fence(std::memory_order order) noexcept { std::atomic_thread_fence(order); }

}  // namespace tensorbus::platform
#endif
