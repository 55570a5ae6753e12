#include "tensorbus/cli/values/value_text.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <type_traits>
#include <vector>

#include "tensorbus/cli/decimals.hpp"
#include "tensorbus/cli/texts.hpp"
#include "tensorbus/cli/utf8.hpp"

namespace tensorbus::cli {
namespace {

constexpr std::size_t kNoLimit = SIZE_MAX;
constexpr std::size_t kMaxItems = 6;         // of a list
constexpr std::size_t kMaxCharacters = 120;  // of a text
constexpr std::size_t kMaxDigits = 40;       // of a whole number
constexpr std::size_t kMaxHexDigits = 4096;  // of a number that is written in decimal digits
constexpr std::string_view kLeftOut = "...";

// A record has bytes of its own, so that the limit of a message does not hold for what is in it.
constexpr std::size_t kMaxDepth = 64;

struct Limits {
  std::size_t items = kNoLimit;
  std::size_t characters = kNoLimit;
  std::size_t digits = kNoLimit;
  std::size_t depth = kMaxDepth;  // levels that may follow

  Limits inner() const {
    if (depth == 0) throw Error(Code::kProtocol, "sample.fields: nested too deep");
    Limits limits = *this;
    --limits.depth;
    return limits;
  }
};

std::string escaped(const char* format, std::uint32_t code) {
  std::array<char, 16> text{};
  (void)std::snprintf(text.data(), text.size(), format, code);
  return text.data();
}

std::string escaped(const Character& character, char quote) {
  const char32_t code = character.code;
  // Python has a byte that is not UTF-8 as a lone surrogate.
  if (!character.valid)
    return escaped("\\udc%02x", static_cast<std::uint8_t>(character.bytes.front()));
  if (code == static_cast<char32_t>(quote) || code == '\\')
    return '\\' + std::string(character.bytes);
  if (code == '\n') return "\\n";
  if (code == '\r') return "\\r";
  if (code == '\t') return "\\t";
  if (shown(character.bytes) == character.bytes) return std::string(character.bytes);
  if (code < 0x100) return escaped("\\x%02x", code);
  return code < 0x10000 ? escaped("\\u%04x", code) : escaped("\\U%08x", code);
}

std::vector<Character> characters_of(std::string_view text) {
  std::vector<Character> found;
  while (!text.empty()) {
    found.push_back(first_character(text));
    text.remove_prefix(found.back().bytes.size());
  }
  return found;
}

char quote_of(std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  return has_single && text.find('"') == std::string_view::npos ? '"' : '\'';
}

constexpr std::size_t kHead = (kMaxCharacters - kLeftOut.size()) / 2;
constexpr std::size_t kTail = kMaxCharacters - kLeftOut.size() - kHead;

// Returns the first characters, and the last ones.
std::string first_characters(std::string_view text, std::size_t count) {
  std::string found;
  for (; count != 0 && !text.empty(); --count) {
    const Character character = first_character(text);
    found += character.bytes;
    text.remove_prefix(character.bytes.size());
  }
  return found;
}
std::string last_characters(std::string_view text, std::size_t count) {
  constexpr std::size_t kLongest = 4;  // bytes of a character
  if (text.size() > kLongest * count) text.remove_prefix(text.size() - kLongest * count);
  const std::vector<Character> all = characters_of(text);
  std::string found;
  for (std::size_t i = all.size() - std::min(count, all.size()); i < all.size(); ++i)
    found += all[i].bytes;
  return found;
}

// Returns the first and the last characters of a text that has more than `most`.
std::string without_middle(const std::string& text, std::size_t most) {
  const std::size_t head = (most - kLeftOut.size()) / 2;
  return first_characters(text, head)
      .append(kLeftOut)
      .append(last_characters(text, most - kLeftOut.size() - head));
}
std::string shortened(const std::string& text, std::size_t most) {
  const bool fits = most == kNoLimit || characters_of(text).size() <= most;
  return fits ? text : without_middle(text, most);
}

std::string short_literal(const std::string& text, const Limits& limits) {
  if (limits.characters == kNoLimit) return text_literal(text);
  const std::string begin = first_characters(text, kMaxCharacters);
  if (begin.size() == text.size())
    if (std::string literal = text_literal(text); characters_of(literal).size() <= kMaxCharacters)
      return literal;
  const std::string kept = first_characters(text, kHead) + last_characters(text, kTail);
  return without_middle(text_literal(kept), kMaxCharacters);
}

void append_escaped(std::string& to, std::string_view bytes, char quote) {
  for (const char byte : bytes) {
    const auto code = static_cast<std::uint8_t>(byte);
    if (byte == quote || byte == '\\')
      to.append("\\").append(1, byte);
    else if (byte == '\n')
      to += "\\n";
    else if (byte == '\r')
      to += "\\r";
    else if (byte == '\t')
      to += "\\t";
    else
      to += code >= 0x20 && code < 0x7f ? std::string(1, byte) : escaped("\\x%02x", code);
  }
}

std::string bytes_literal(const Value::Bytes& bytes, const Limits& limits) {
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const char quote = quote_of(text);
  std::string made = std::string("b") + quote;
  if (limits.characters != kNoLimit && text.size() > 2 * kMaxCharacters) {
    append_escaped(made, text.substr(0, kMaxCharacters), quote);  // the middle is not shown
    text.remove_prefix(text.size() - kMaxCharacters);
  }
  append_escaped(made, text, quote);
  return shortened(made + quote, limits.characters);
}

std::string text_of(const Value& value, const Limits& limits);

std::string items_text(const Value::List& items, const char* begin, const char* end,
                       const Limits& limits) {
  std::string made = begin;
  const std::size_t count = std::min(items.size(), limits.items);
  for (std::size_t i = 0; i < count; ++i)
    made.append(i == 0 ? "" : ", ").append(text_of(items[i], limits.inner()));
  if (count < items.size()) made.append(", ").append(kLeftOut);
  return made + end;
}

// Returns the decimal digits of a number in hexadecimal ones: "-0x1f".
std::string decimal_text(const std::string& hex) {
  const bool is_negative = hex.starts_with('-');
  std::string digits = "0";  // the last one first
  for (const char letter : hex.substr(is_negative ? 3 : 2)) {
    int carry = letter <= '9' ? letter - '0' : (letter | 0x20) - 'a' + 10;
    for (char& digit : digits) {
      carry += 16 * (digit - '0');
      digit = static_cast<char>('0' + carry % 10);
      carry /= 10;
    }
    for (; carry != 0; carry /= 10) digits += static_cast<char>('0' + carry % 10);
  }
  std::ranges::reverse(digits);
  return (is_negative ? "-" : "") + digits;
}

bool is_hex(const Value& value) {
  if (!value.is<std::string>()) return false;
  const std::string& text = value.as<std::string>();
  const std::size_t begin = text.starts_with('-') ? 3 : 2;
  return text.size() > begin && text.size() < kMaxHexDigits && text.substr(begin - 2, 2) == "0x" &&
         text.find_first_not_of("0123456789abcdef", begin) == std::string::npos;
}

bool are_all(const Value::List& items, bool (*is)(const Value&)) {
  return std::ranges::all_of(items, is);
}
double real_of(const Value& value) {
  if (value.is<double>()) return value.as<double>();
  return value.is<std::int64_t>() ? static_cast<double>(value.as<std::int64_t>())
                                  : static_cast<double>(value.as<std::uint64_t>());
}

// As Python shows a set that can be sorted.
Value::List sorted_items(Value::List items) {
  if (are_all(items, [](const Value& item) { return item.is<std::string>(); }))
    std::ranges::sort(items, {}, [](const Value& item) { return item.as<std::string>(); });
  else if (are_all(items, [](const Value& item) {
             return item.is<std::int64_t>() || item.is<std::uint64_t>() || item.is<double>();
           }))
    std::ranges::sort(items, {}, real_of);
  return items;
}

// A value of a type that only Python has, e.g. a set.
std::string record_text(const Value& value, const Limits& limits) {
  const Value::List record = internal::record_in(value);
  if (record.empty() || !record.front().is<std::string>()) return "<extension>";
  const std::string& name = record.front().as<std::string>();
  const Value::List parts(record.begin() + 1, record.end());
  if (name == "handle" && parts.size() == 1) return plain_text(parts[0]);
  if (const auto number = large_number_text(value)) return shortened(*number, limits.digits);
  const Value::List shown_items = limits.items == kNoLimit ? parts : sorted_items(parts);
  if (name == "set" && !parts.empty()) return items_text(shown_items, "{", "}", limits);
  if (name == "frozenset" && !parts.empty())
    return items_text(shown_items, "frozenset({", "})", limits);
  if (name == "complex" && parts.size() == 2 && parts[0].is<double>() && parts[1].is<double>())
    return complex_text(parts[0].as<double>(), parts[1].as<double>());
  return items_text(parts, (name + '(').c_str(), ")", limits);
}

std::string map_text(const Value::Map& map, const Limits& limits) {
  std::string made = "{";
  for (const auto& [key, value] : map)
    made.append(made.size() == 1 ? "" : ", ")
        .append(text_of(key, limits.inner()) + ": " + text_of(value, limits.inner()));
  return made + '}';
}

std::string text_of(const Value& value, const Limits& limits) {
  return std::visit(
      [&](const auto& is) -> std::string {
        using Is = std::remove_cvref_t<decltype(is)>;
        if constexpr (std::same_as<Is, std::nullptr_t>) {
          return "None";
        } else if constexpr (std::same_as<Is, bool>) {
          return is ? "True" : "False";
        } else if constexpr (std::integral<Is>) {
          return std::to_string(is);
        } else if constexpr (std::same_as<Is, double>) {
          return number_text(is);
        } else if constexpr (std::same_as<Is, std::string>) {
          return short_literal(is, limits);
        } else if constexpr (std::same_as<Is, Value::Bytes>) {
          return bytes_literal(is, limits);
        } else if constexpr (std::same_as<Is, Value::List>) {
          return items_text(is, "[", "]", limits);
        } else if constexpr (std::same_as<Is, Value::Tuple>) {
          return items_text(is.items, "(", is.items.size() == 1 ? ",)" : ")", limits);
        } else if constexpr (std::same_as<Is, Value::Map>) {
          return map_text(is, limits);
        } else if constexpr (std::same_as<Is, Value::Extension>) {
          return record_text(value, limits);
        } else {
          return "<tensor>";
        }
      },
      value.variant());
}

}  // namespace

std::string number_text(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
  const double size = std::abs(number);
  const bool is_plain = size == 0 || (size >= 1e-4 && size < 1e16);
  const std::string text = fewest_digits(number, !is_plain);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

std::string complex_text(double real, double imaginary) {
  const auto part = [](double number) {
    const std::string text = number_text(number);
    return text.ends_with(".0") ? text.substr(0, text.size() - 2) : text;
  };
  if (real == 0 && !std::signbit(real)) return part(imaginary) + 'j';
  const bool has_sign = std::signbit(imaginary) && !std::isnan(imaginary);
  return '(' + part(real) + (has_sign ? "" : "+") + part(imaginary) + "j)";
}

std::string short_number_text(double number) {
  if (std::isnan(number)) return "nan";
  std::array<char, 32> text{};
  (void)std::snprintf(text.data(), text.size(), "%.6g", number);
  return text.data();
}

std::string text_literal(std::string_view text) {
  const char quote = quote_of(text);
  std::string made(1, quote);
  for (const Character& character : characters_of(text)) made += escaped(character, quote);
  return made + quote;
}

std::string value_text(const Value& value) {
  return text_of(value, {kMaxItems, kMaxCharacters, kMaxDigits});
}

std::optional<std::string> large_number_text(const Value& value) {
  const Value::List record = internal::record_in(value);
  if (record.size() != 2 || record[0] != Value("int") || !is_hex(record[1])) return std::nullopt;
  return decimal_text(record[1].as<std::string>());
}

std::string whole_text(const Value& value) { return text_of(value, {}); }

std::string plain_text(const Value& value) {
  return value.is<std::string>() ? value.as<std::string>() : whole_text(value);
}

}  // namespace tensorbus::cli
