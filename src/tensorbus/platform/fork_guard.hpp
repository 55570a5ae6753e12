#pragma once

#include <atomic>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace tensorbus::platform {

namespace internal {
extern std::atomic<std::uint32_t> fork_generation;
}

// Counts the forks between the first process and this one. An object remembers the value at its
// construction; in a child the value differs, and the object must not be touched there.
inline std::uint32_t fork_generation() noexcept {
  // Relaxed: written only in a child, before it has a second thread.
  return internal::fork_generation.load(std::memory_order_relaxed);
}

// Leaks, on purpose: in a child, what belongs to the parent is left alone, since its locks may be
// held by threads that do not exist here and its descriptors are closed.
template <typename T>
void abandon(T&& value) {
  new std::remove_cvref_t<T>(std::forward<T>(value));
}

// Descriptors that every forked child closes first thing. Both are safe in any thread.
void close_in_child(int fd) noexcept;
void keep_in_child(int fd) noexcept;

}  // namespace tensorbus::platform
