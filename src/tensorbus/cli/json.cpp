#include "tensorbus/cli/json.hpp"

#include <array>
#include <cmath>
#include <cstdio>

#include "tensorbus/cli/output.hpp"
#include "tensorbus/cli/utf8.hpp"
#include "tensorbus/cli/values/value_text.hpp"

namespace tensorbus::cli {
namespace {

void append_unit(std::string& text, char16_t unit) {
  std::array<char, 8> escape{};
  std::snprintf(escape.data(), escape.size(), "\\u%04x", static_cast<unsigned>(unit));
  text += escape.data();
}

}  // namespace

void Record::add() const { cli::print(text_ + "}\n"); }

void Record::print() const {
  add();
  flush();
}

std::string json_text(std::string_view text) {
  std::string made = "\"";
  while (!text.empty()) {
    const Character character = first_character(text);
    const char32_t code = character.code;
    text.remove_prefix(character.bytes.size());
    if (!character.valid) {
      made += '\\';
      append_unit(made, static_cast<char16_t>(0xdc00U + code));
    } else if (code == '"' || code == '\\') {
      made.append("\\").append(character.bytes);
    } else if (const std::size_t at = std::string_view("\b\f\n\r\t").find(static_cast<char>(code));
               code < 0x20 && at != std::string_view::npos) {
      made.append("\\").append(1, "bfnrt"[at]);
    } else if (code >= 0x20 && code < 0x7f) {
      made += character.bytes;
    } else if (code < 0x10000) {
      append_unit(made, static_cast<char16_t>(code));
    } else {
      append_unit(made, static_cast<char16_t>(0xd800U + ((code - 0x10000) >> 10U)));
      append_unit(made, static_cast<char16_t>(0xdc00U + ((code - 0x10000) & 0x3ffU)));
    }
  }
  return made + '"';
}

std::string json_text(double number) {
  if (std::isfinite(number)) return number_text(number);
  return std::isnan(number) ? "\"NaN\"" : number > 0 ? "\"Infinity\"" : "\"-Infinity\"";
}

void Record::put(Access access) {
  put(access == Access::kShared ? "shared" : access == Access::kPrivate ? "private" : "read");
}

}  // namespace tensorbus::cli
