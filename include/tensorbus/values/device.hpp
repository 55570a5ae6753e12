#pragma once

#include <compare>

namespace tensorbus::inline v0 {

// The memory of a tensor: host memory, or a GPU by its ordinal in this process.
struct Device {
  enum class Type : unsigned char { kHost, kCuda };

  Type type = Type::kHost;
  int ordinal = 0;

  static constexpr Device host() noexcept { return {}; }
  static constexpr Device cuda(int ordinal = 0) noexcept { return {Type::kCuda, ordinal}; }
  constexpr bool is_host() const noexcept { return type == Type::kHost; }
  constexpr bool is_cuda() const noexcept { return type == Type::kCuda; }
  auto operator<=>(const Device&) const = default;
};

}  // namespace tensorbus::inline v0
