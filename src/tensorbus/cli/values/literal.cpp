#include "tensorbus/cli/values/literal.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <iterator>
#include <limits>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "tensorbus/cli/decimals.hpp"
#include "tensorbus/cli/texts.hpp"
#include "tensorbus/cli/values/value_text.hpp"

namespace tensorbus::cli {
namespace {

constexpr std::size_t kMaxLevels = 60;         // levels; a message has 64 at most
constexpr std::size_t kLongestNumber = 4'096;  // of a whole number

struct NoLiteral : std::exception {};

void append_utf8(std::string& text, std::uint32_t code) {
  const auto add = [&](std::uint32_t byte) { text += static_cast<char>(byte); };
  if (code < 0x80) {
    add(code);
  } else if (code < 0x800) {
    add(0xc0 | code >> 6U);
    add(0x80 | (code & 0x3fU));
  } else if (code < 0x10000) {
    add(0xe0 | code >> 12U);
    add(0x80 | (code >> 6U & 0x3fU));
    add(0x80 | (code & 0x3fU));
  } else {
    add(0xf0 | code >> 18U);
    add(0x80 | (code >> 12U & 0x3fU));
    add(0x80 | (code >> 6U & 0x3fU));
    add(0x80 | (code & 0x3fU));
  }
}

// Reads one literal. Each function throws NoLiteral for text that is none.
class Reader {
 public:
  explicit Reader(std::string_view text) : left_(text) {}

  Value whole() {
    Value value = next(0);
    skip_space();
    if (!left_.empty()) throw NoLiteral();
    return value;
  }

 private:
  Value next(std::size_t depth) {
    if (depth > kMaxLevels) throw NoLiteral();
    skip_space();
    if (takes("None") || takes("null")) return nullptr;
    if (takes("True") || takes("true")) return true;
    if (takes("False") || takes("false")) return false;
    if (takes("NaN")) return std::numeric_limits<double>::quiet_NaN();
    if (takes("Infinity")) return std::numeric_limits<double>::infinity();
    if (takes("-Infinity")) return -std::numeric_limits<double>::infinity();
    if (takes("b'")) return bytes('\'');
    if (takes("b\"")) return bytes('"');
    if (takes("'")) return text('\'');
    if (takes("\"")) return text('"');
    if (takes("[")) return items(']', depth).first;
    if (takes("(")) return tuple(depth);
    if (takes("{")) return map_or_set(depth);
    return number();
  }

  // Returns the items up to `end`, and whether there was a comma.
  std::pair<Value::List, bool> items(char end, std::size_t depth) {
    Value::List found;
    bool has_comma = false;
    for (bool ended = takes(end); !ended; ended = takes(end)) {
      if (!found.empty() && !has_comma) throw NoLiteral();
      found.push_back(next(depth + 1));
      has_comma = takes(',');
    }
    return {std::move(found), has_comma};
  }
  Value tuple(std::size_t depth) {
    auto [found, has_comma] = items(')', depth);
    if (found.size() == 1 && !has_comma) return std::move(found.front());  // only in parentheses
    return Value::Tuple{std::move(found)};
  }
  Value map_or_set(std::size_t depth) {
    Value::Map map;
    bool has_comma = false;
    for (bool ended = takes('}'); !ended; ended = takes('}')) {
      if (!map.empty() && !has_comma) throw NoLiteral();
      Value key = next(depth + 1);
      if (map.empty() && !takes(':')) return rest_of_set(std::move(key), depth);
      if ((!map.empty() && !takes(':')) || !has_hash(key)) throw NoLiteral();
      Value value = next(depth + 1);
      const auto known = std::ranges::find(map, key, &std::pair<Value, Value>::first);
      if (known != map.end())
        known->second = std::move(value);
      else
        map.emplace_back(std::move(key), std::move(value));
      has_comma = takes(',');
    }
    return map;
  }
  // A set is a record (docs/tensors.md).
  Value rest_of_set(Value first, std::size_t depth) {
    Value::List all{"set", std::move(first)};
    if (takes(',')) {
      Value::List more = items('}', depth).first;
      std::ranges::copy(more, std::back_inserter(all));
    } else if (!takes('}')) {
      throw NoLiteral();
    }
    if (!std::ranges::all_of(all, has_hash)) throw NoLiteral();
    return record(std::move(all));
  }
  // Whether it may be a key of a dict in Python, or an item of a set.
  static bool has_hash(const Value& value) {
    const bool is_set =
        value.is<Value::Extension>() && internal::record_in(value).front() == Value("set");
    return !is_set && !value.is<Value::List>() && !value.is<Value::Map>();
  }

  Value number() {
    constexpr std::string_view kOfNumbers = "0123456789abcdefoxABCDEFOX+-._";
    const std::size_t end = std::min(left_.find_first_not_of(kOfNumbers), left_.size());
    std::string digits(left_.substr(0, end));
    left_.remove_prefix(end);
    drop_underscores(digits);
    const bool is_negative = digits.starts_with('-');
    if (is_negative || digits.starts_with('+')) digits.erase(0, 1);
    if (digits.empty() || digits.front() == '-' || digits.front() == '+') throw NoLiteral();
    if (digits.size() > 1 && digits.front() == '0')
      for (const auto& [letter, base] :
           {std::pair('x', 16U), std::pair('o', 8U), std::pair('b', 2U)})
        if ((digits[1] | 0x20) == letter) return whole_number(digits.substr(2), base, is_negative);
    if (digits.find_first_not_of("0123456789") != std::string::npos)
      return real(digits, is_negative);
    const bool is_octal = digits.front() == '0' &&  // in C, and an error in Python
                          digits.find_first_not_of('0') != std::string::npos;
    if (is_octal) throw NoLiteral();
    return whole_number(digits, 10, is_negative);
  }
  // Takes out each "_" between two digits.
  static void drop_underscores(std::string& digits) {
    const auto is_digit = [&](std::size_t at) {
      return at < digits.size() && std::isxdigit(static_cast<unsigned char>(digits[at])) != 0;
    };
    for (std::size_t at = 0; at < digits.size(); ++at)
      if (digits[at] == '_' && (at == 0 || !is_digit(at - 1) || !is_digit(at + 1)))
        throw NoLiteral();
    std::erase(digits, '_');
  }
  static Value real(const std::string& digits, bool is_negative) {
    const double number = decimal_in(digits);
    if (std::isnan(number)) throw NoLiteral();
    return is_negative ? -number : number;
  }
  // A number of more than 64 bits is a record (docs/tensors.md).
  static Value whole_number(const std::string& digits, unsigned base, bool is_negative) {
    if (digits.empty() || digits.size() > kLongestNumber) throw NoLiteral();
    std::string hex;  // the last digit first
    for (const char letter : digits) {
      unsigned carry = letter <= '9' ? static_cast<unsigned>(letter - '0')
                                     : static_cast<unsigned>((letter | 0x20) - 'a' + 10);
      if (carry >= base) throw NoLiteral();
      for (char& digit : hex) {
        carry += base * static_cast<unsigned>(digit);
        digit = static_cast<char>(carry % 16);
        carry /= 16;
      }
      for (; carry != 0; carry /= 16) hex += static_cast<char>(carry % 16);
    }
    std::string text;
    for (auto digit = hex.rbegin(); digit != hex.rend(); ++digit)
      text += "0123456789abcdef"[static_cast<unsigned char>(*digit)];
    if (text.empty()) return 0;
    text.insert(0, is_negative ? "-" : "");
    std::int64_t small = 0;
    std::uint64_t large = 0;
    const char* const last = text.data() + text.size();
    if (std::from_chars(text.data(), last, small, 16).ec == std::errc()) return small;
    if (!is_negative && std::from_chars(text.data(), last, large, 16).ec == std::errc())
      return large;
    text.insert(is_negative ? 1 : 0, "0x");
    return record({"int", std::move(text)});
  }
  static Value record(Value::List parts) {
    constexpr std::int8_t kRecord = 3;
    return Value::Extension{kRecord, Value(std::move(parts)).encode()};
  }

  Value text(char quote) {
    std::string found;
    while (!takes_now(quote)) {
      if (takes_now('\\'))
        append_escape(found, quote);
      else
        found += plain_character();
    }
    return found;
  }
  Value bytes(char quote) {
    Value::Bytes found;
    while (!takes_now(quote)) {
      std::string part;
      if (takes_now('\\'))
        append_byte_escape(part, quote);
      else if (static_cast<unsigned char>(part.append(1, plain_character()).front()) >= 0x80)
        throw NoLiteral();
      for (const char byte : part) found.push_back(static_cast<std::byte>(byte));
    }
    return found;
  }
  char plain_character() {
    const char found = character();
    if (found == '\n' || found == '\r') throw NoLiteral();
    return found;
  }
  void append_byte_escape(std::string& text, char quote) {
    if (takes_now('x')) {
      text += static_cast<char>(hex(2));
    } else if (const auto code = octal()) {
      text += static_cast<char>(*code);
    } else if (left_.starts_with('u') || left_.starts_with('U') || left_.starts_with('N')) {
      text += {'\\', character()};  // no escape in bytes
    } else {
      append_escape(text, quote);
    }
  }
  void append_escape(std::string& text, char quote) {
    constexpr std::string_view kNames = "abfnrtv\\'\"";
    constexpr std::string_view kCharacters("\a\b\f\n\r\t\v\\'\"");
    if (const auto code = octal()) return append_utf8(text, *code);
    const char name = character();
    if (name == '\n') return;  // the line goes on
    if (name == 'N') throw NoLiteral();
    if (const std::size_t at = kNames.find(name); at != std::string_view::npos) {
      text += kCharacters[at];
    } else if (name == '/' && quote == '"') {  // of JSON
      text += name;
    } else if (name == 'x' || name == 'u' || name == 'U') {
      std::uint32_t code = hex(name == 'x' ? 2 : name == 'u' ? 4 : 8);
      if (code >= 0xd800 && code < 0xdc00 && takes("\\u")) code = pair(code, hex(4));
      if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) throw NoLiteral();
      append_utf8(text, code);
    } else {
      text += {'\\', name};
    }
  }
  // Returns the number in at most three octal digits; nothing if there are none.
  std::optional<std::uint32_t> octal() {
    std::optional<std::uint32_t> code;
    for (int i = 0; i < 3 && !left_.empty() && left_.front() >= '0' && left_.front() < '8'; ++i)
      code = 8 * code.value_or(0) + static_cast<std::uint32_t>(character() - '0');
    return code;
  }
  // Returns the character of two units of UTF-16.
  static std::uint32_t pair(std::uint32_t high, std::uint32_t low) {
    if (low < 0xdc00 || low >= 0xe000) throw NoLiteral();
    return 0x10000 + ((high - 0xd800) << 10U) + (low - 0xdc00);
  }
  std::uint32_t hex(std::size_t digits) {
    std::uint32_t number = 0;
    if (left_.size() < digits) throw NoLiteral();
    const char* const end = left_.data() + digits;
    const auto read = std::from_chars(left_.data(), end, number, 16);
    if (read.ec != std::errc() || read.ptr != end) throw NoLiteral();
    left_.remove_prefix(digits);
    return number;
  }
  char character() {
    if (left_.empty()) throw NoLiteral();
    const char found = left_.front();
    left_.remove_prefix(1);
    return found;
  }

  void skip_space() {
    left_.remove_prefix(std::min(left_.find_first_not_of(" \t\r\n"), left_.size()));
  }
  bool takes(std::string_view word) {
    if (!left_.starts_with(word)) return false;
    left_.remove_prefix(word.size());
    return true;
  }
  bool takes(char mark) {
    skip_space();
    return takes_now(mark);
  }
  bool takes_now(char mark) { return takes(std::string_view(&mark, 1)); }

  std::string_view left_;
};

}  // namespace

Value literal_in(const std::string& text) {
  try {
    return Reader(text).whole();
  } catch (const NoLiteral&) {
    throw CLI::ValidationError(
        shown(text_literal(text)) +
        " is neither JSON nor a literal of Python; a text needs quotes of its own: '\"" +
        shown(text) + "\"'");
  }
}

}  // namespace tensorbus::cli
