#include "tensorbus/cli/values/literal.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>

#include "tensorbus/cli/texts.hpp"
#include "tensorbus/cli/values/value_text.hpp"

namespace tensorbus::cli {
namespace {

constexpr std::size_t kMaxDepth = 60;  // levels; a message has 64 at most

struct NoLiteral {};

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
    if (depth > kMaxDepth) throw NoLiteral();
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
      if (!map.empty() && !takes(':')) throw NoLiteral();
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
    constexpr std::int8_t kRecord = 3;
    return Value::Extension{kRecord, Value(std::move(all)).encode()};
  }

  Value number() {
    constexpr std::string_view kOfNumbers = "0123456789abcdefxABCDEFX+-._";
    const std::size_t end = std::min(left_.find_first_not_of(kOfNumbers), left_.size());
    std::string digits(left_.substr(0, end));
    left_.remove_prefix(end);
    std::erase(digits, '_');
    if (digits.starts_with('+')) digits.erase(0, 1);
    const char* const last = digits.data() + digits.size();
    std::int64_t whole = 0;
    std::uint64_t large = 0;
    double real = 0;
    const auto is_read = [&](const char* first, auto& to, auto... base) {
      const auto read = std::from_chars(first, last, to, base...);
      const bool is_huge = std::is_floating_point_v<std::remove_cvref_t<decltype(to)>> &&
                           read.ec == std::errc::result_out_of_range;
      if (is_huge) to = std::strtod(first, nullptr);  // 0 or infinite
      return (read.ec == std::errc() || is_huge) && read.ptr == last;
    };
    if ((digits.starts_with("0x") || digits.starts_with("0X")) &&
        is_read(digits.data() + 2, large, 16))
      return large;
    const std::size_t nonzero = digits.find_first_not_of('0');
    const bool is_octal = nonzero != 0 && nonzero != std::string::npos &&
                          digits.find_first_not_of("0123456789") == std::string::npos;
    if (is_octal) throw NoLiteral();  // as in C
    if (is_read(digits.data(), whole)) return whole;
    if (is_read(digits.data(), large)) return large;
    if (is_read(digits.data(), real)) return real;
    throw NoLiteral();
  }

  Value text(char quote) {
    std::string found;
    while (!takes_now(quote)) {
      if (takes_now('\\'))
        found += escape();
      else
        found += character();
    }
    return found;
  }
  Value bytes(char quote) {
    Value::Bytes found;
    while (!takes_now(quote)) {
      std::string part = takes_now('\\') ? byte_escape() : std::string(1, character());
      for (const char byte : part) found.push_back(static_cast<std::byte>(byte));
    }
    return found;
  }
  std::string byte_escape() {
    if (takes_now('x')) return {static_cast<char>(hex(2))};
    if (left_.starts_with('u') || left_.starts_with('U')) return {'\\', character()};
    return escape();
  }
  std::string escape() {
    constexpr std::string_view kNames = "abfnrtv\\'\"/";
    constexpr std::string_view kCharacters("\a\b\f\n\r\t\v\\'\"/");
    const char name = character();
    if (name == '\n') return "";  // the line goes on
    if (const std::size_t at = kNames.find(name); at != std::string_view::npos)
      return {kCharacters[at]};
    std::string found;
    if (name >= '0' && name < '8') {
      auto code = static_cast<std::uint32_t>(name - '0');
      for (int i = 0; i < 2 && !left_.empty() && left_.front() >= '0' && left_.front() < '8'; ++i)
        code = 8 * code + static_cast<std::uint32_t>(character() - '0');
      append_utf8(found, code);
      return found;
    }
    if (name == 'x' || name == 'u' || name == 'U') {
      std::uint32_t code = hex(name == 'x' ? 2 : name == 'u' ? 4 : 8);
      if (code >= 0xd800 && code < 0xdc00 && takes("\\u")) code = pair(code, hex(4));
      if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) throw NoLiteral();
      append_utf8(found, code);
      return found;
    }
    return {'\\', name};
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
