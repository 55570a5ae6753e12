#pragma once

#include <atomic>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "tensorbus/platform/export.hpp"

namespace tensorbus::platform {

namespace internal {
extern TENSORBUS_API std::atomic<std::uint32_t> fork_generation;
}

// Counts the forks between the first process and this one. An object stores the value at its
// construction. If the value differs now, this is a child, and the object must not be touched.
inline std::uint32_t fork_generation() noexcept {
  // Relaxed: it is written only in a child, before the child has a second thread.
  return internal::fork_generation.load(std::memory_order_relaxed);
}

// Leaks the value on purpose. A child does not touch its parent's objects: their locks may be held
// by threads that do not exist here, and their descriptors are closed.
template <typename T>
void abandon(T&& value) {
  new std::remove_cvref_t<T>(std::forward<T>(value));
}

// Sets whether every forked child closes this descriptor first. Safe in any thread.
void close_in_child(int fd) noexcept;
void keep_in_child(int fd) noexcept;

}  // namespace tensorbus::platform
