#pragma once

#include <atomic>

// The atomic type of all lock-free code: std::atomic. The tests of memory orders
// (tests/model/weak_memory) include the atomics of a model first, and so test the orders that the
// code has.
#ifndef TENSORBUS_ATOMICS_OF_A_MODEL
namespace tensorbus::platform {

template <typename T>
using Atomic = std::atomic<T>;

inline void atomic_fence(std::memory_order order) noexcept { std::atomic_thread_fence(order); }

}  // namespace tensorbus::platform
#endif
