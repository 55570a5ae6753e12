#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tensorbus::cli {

// One character of UTF-8 text, or a byte that belongs to none.
struct Character {
  std::string_view bytes;
  char32_t code = 0;
  bool valid = true;
};

// Returns the character at the beginning of text that is not empty.
inline Character first_character(std::string_view text) {
  const auto byte = [&](std::size_t at) { return static_cast<std::uint8_t>(text[at]); };
  const std::uint8_t first = byte(0);
  if (first < 0x80) return {text.substr(0, 1), first};
  const std::size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  const Character none{text.substr(0, 1), first, false};
  if (first < 0xc2 || first > 0xf4 || text.size() < size) return none;
  char32_t code = first & (0x7fU >> size);
  for (std::size_t at = 1; at < size; ++at) {
    if ((byte(at) & 0xc0U) != 0x80) return none;
    code = code << 6U | (byte(at) & 0x3fU);
  }
  constexpr char32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = code >= 0xd800 && code < 0xe000;
  if (code < kSmallest[size] || code > 0x10ffff || is_surrogate) return none;
  return {text.substr(0, size), code};
}

}  // namespace tensorbus::cli
