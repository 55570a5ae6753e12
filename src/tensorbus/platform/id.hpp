#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "tensorbus/platform/export.hpp"

namespace tensorbus {

// A random 128-bit identity: of a participant, of a host. Written as 32 lower-case hex digits.
struct TENSORBUS_API Id {
  std::array<std::uint8_t, 16> bytes{};

  static Id random();
  static std::optional<Id> parse(std::string_view hex) noexcept;
  std::string hex() const;

  auto operator<=>(const Id&) const = default;
};

}  // namespace tensorbus

template <>
struct std::hash<tensorbus::Id> {
  std::size_t operator()(const tensorbus::Id& id) const noexcept {
    std::size_t value = 0;  // the bytes are random: any eight of them are a good hash
    for (int i = 0; i < 8; ++i) value = value << 8 | id.bytes[i];
    return value;
  }
};
