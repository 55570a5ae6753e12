#include "tensorbus/cli/json.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "tensorbus/cli/output.hpp"
#include "tensorbus/cli/utf8.hpp"

namespace tensorbus::cli {
namespace {

void append_unit(std::string& text, unsigned unit) {  // of UTF-16
  std::array<char, 8> escape{};
  std::snprintf(escape.data(), escape.size(), "\\u%04x", unit);
  text += escape.data();
}

}  // namespace

void Record::add() const { cli::print(text_ + "}\n"); }

void Record::print() const {
  add();
  flush();
}

// In ASCII. A byte that is not UTF-8 is written as the escape of a lone surrogate, which JSON does
// not have.
void Record::put(std::string_view text) {
  text_ += '"';
  while (!text.empty()) {
    const Character character = first_character(text);
    const char32_t code = character.code;
    text.remove_prefix(character.bytes.size());
    if (!character.valid) {
      text_ += '\\';
      append_unit(text_, 0xdc00U + static_cast<unsigned>(code));
    } else if (code == '"' || code == '\\') {
      text_.append("\\").append(character.bytes);
    } else if (code == '\n') {
      text_ += "\\n";
    } else if (code >= 0x20 && code < 0x7f) {
      text_ += character.bytes;
    } else if (code < 0x10000) {
      append_unit(text_, static_cast<unsigned>(code));
    } else {
      append_unit(text_, 0xd800U + static_cast<unsigned>((code - 0x10000) >> 10U));
      append_unit(text_, 0xdc00U + static_cast<unsigned>((code - 0x10000) & 0x3ffU));
    }
  }
  text_ += '"';
}

// The shortest text that gives the same number, with a point or an exponent.
void Record::put(double number) {
  if (!std::isfinite(number))
    return put(std::isnan(number) ? "NaN" : number > 0 ? "Infinity" : "-Infinity");
  std::array<char, 400> digits{};
  const double size = std::abs(number);
  const bool is_plain = size == 0 || (size >= 1e-4 && size < 1e16);
  const auto format = is_plain ? std::chars_format::fixed : std::chars_format::scientific;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number, format);
  const std::string_view text(digits.data(), static_cast<std::size_t>(end.ptr - digits.data()));
  text_.append(text).append(text.find_first_of(".e") == std::string_view::npos ? ".0" : "");
}

void Record::put(Access access) {
  put(access == Access::kShared ? "shared" : access == Access::kPrivate ? "private" : "read");
}

}  // namespace tensorbus::cli
