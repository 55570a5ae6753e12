#pragma once

#include <sys/random.h>

#include <array>
#include <cerrno>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <tensorbus/values/error.hpp>

namespace tensorbus::inline v0 {

// A random 128-bit id of a participant or host. As text it is 32 lower-case hexadecimal digits.
struct Id {
  std::array<std::uint8_t, 16> bytes{};

  static Id random();  // throws Error(kSystem)
  static std::optional<Id> parse(std::string_view hex) noexcept;
  std::string hex() const;

  bool operator==(const Id&) const = default;
  // Not defaulted: libc++ 14 has no ordering of arrays.
  std::strong_ordering operator<=>(const Id& other) const noexcept {
    return std::memcmp(bytes.data(), other.bytes.data(), bytes.size()) <=> 0;
  }
};

namespace internal {

inline constexpr std::string_view kHexDigits = "0123456789abcdef";

}  // namespace internal

inline Id Id::random() {
  Id id;
  // Requests of up to 256 bytes are never cut short once the pool is ready (getrandom(2)).
  while (::getrandom(id.bytes.data(), id.bytes.size(), 0) < 0)
    if (errno != EINTR)
      throw Error(Code::kSystem, "getrandom: " + std::generic_category().message(errno));
  return id;
}

inline std::optional<Id> Id::parse(std::string_view hex) noexcept {
  if (hex.size() != 32) return std::nullopt;
  Id id;
  for (std::size_t i = 0; i < hex.size(); ++i) {
    const auto digit = internal::kHexDigits.find(hex[i]);
    if (digit == std::string_view::npos) return std::nullopt;
    id.bytes[i / 2] = static_cast<std::uint8_t>(std::size_t{id.bytes[i / 2]} << 4 | digit);
  }
  return id;
}

inline std::string Id::hex() const {
  std::string text;
  text.reserve(32);
  for (const std::uint8_t byte : bytes) {
    text += internal::kHexDigits[byte >> 4];
    text += internal::kHexDigits[byte & 15];
  }
  return text;
}

}  // namespace tensorbus::inline v0

template <>
struct std::hash<tensorbus::Id> {
  std::size_t operator()(const tensorbus::Id& id) const noexcept {
    std::size_t value = 0;  // any eight of the random bytes are a good hash
    for (std::size_t i = 0; i < 8; ++i) value = value << 8 | id.bytes[i];
    return value;
  }
};
