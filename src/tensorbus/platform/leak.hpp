#pragma once

#include <array>
#include <cstddef>
#include <new>
#include <utility>

namespace tensorbus::platform {

// Keeps a value forever without allocating: its destructor is never called.
template <typename T>
void leak(T value) noexcept {
  alignas(T) std::array<std::byte, sizeof(T)> never_destroyed;
  new (never_destroyed.data()) T(std::move(value));
}

}  // namespace tensorbus::platform
