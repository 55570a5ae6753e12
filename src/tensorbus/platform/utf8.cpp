#include "tensorbus/platform/utf8.hpp"

#include <algorithm>

namespace tensorbus::platform {

std::size_t utf8_bytes(std::string_view text) noexcept {
  const auto at = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = at(0);
  if (first < 0x80) return 1;
  if (first < 0xC2 || first > 0xF4) return 0;
  const std::size_t bytes = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  if (text.size() < bytes) return 0;
  for (std::size_t i = 1; i < bytes; ++i)
    if ((at(i) & 0xC0) != 0x80) return 0;
  const unsigned char second = at(1);
  const bool refused = (first == 0xE0 && second < 0xA0) ||   // overlong
                       (first == 0xED && second >= 0xA0) ||  // surrogates
                       (first == 0xF0 && second < 0x90) ||   // overlong
                       (first == 0xF4 && second >= 0x90);    // above U+10FFFF
  return refused ? 0 : bytes;
}

bool is_utf8(std::string_view text) noexcept {
  while (!text.empty()) {
    const std::size_t bytes = utf8_bytes(text);
    if (bytes == 0) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

std::string to_utf8(std::string_view text) {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  std::string valid;
  while (!text.empty()) {
    const std::size_t bytes = utf8_bytes(text);
    const auto byte = static_cast<unsigned char>(text[0]);
    if (bytes == 0)
      valid.append("\\x").append(1, kDigits[byte >> 4]).append(1, kDigits[byte & 0xF]);
    else
      valid += text.substr(0, bytes);
    text.remove_prefix(std::max<std::size_t>(bytes, 1));
  }
  return valid;
}

std::size_t printable_bytes(std::string_view text) noexcept {
  const std::size_t bytes = utf8_bytes(text);
  const auto first = static_cast<unsigned char>(text[0]);
  if (bytes == 1) return first >= 0x20 && first != 0x7F ? 1 : 0;
  const bool is_c1 = bytes == 2 && first == 0xC2 && static_cast<unsigned char>(text[1]) < 0xA0;
  return is_c1 ? 0 : bytes;
}

std::string in_quotes(std::string_view text) {
  static constexpr std::size_t kMax = 60;
  std::string shown = "'";
  while (!text.empty() && shown.size() < kMax) {
    const std::size_t printable = printable_bytes(text);
    shown += printable == 0 ? "?" : text.substr(0, printable);
    text.remove_prefix(std::max<std::size_t>(printable, 1));
  }
  return shown + (text.empty() ? "'" : "...'");
}

}  // namespace tensorbus::platform
