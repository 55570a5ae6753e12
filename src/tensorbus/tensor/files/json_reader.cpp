#include "tensorbus/tensor/files/json_reader.hpp"

#include <charconv>

#include "tensorbus/platform/utf8.hpp"

namespace tensorbus::tensor {
namespace {

// Returns true for characters that need no escape in a JSON string.
bool is_plain(char c) { return c != '"' && c != '\\' && static_cast<unsigned char>(c) >= 0x20; }

void append_utf8(std::string& text, std::uint32_t character) {
  const auto put = [&](std::uint32_t byte) { text += static_cast<char>(byte); };
  const auto following = [&](int shift) { put(0x80 | (character >> shift & 0x3F)); };
  if (character < 0x80) return put(character);
  if (character < 0x800) {
    put(0xC0 | character >> 6);
    return following(0);
  }
  if (character < 0x10000) {
    put(0xE0 | character >> 12);
  } else {
    put(0xF0 | character >> 18);
    following(12);
  }
  following(6);
  following(0);
}

}  // namespace

void JsonReader::end_with(char closing) {
  if (!cursor_.skip(closing)) cursor_.refuse(std::string("',' or '") + closing + "'");
}

void JsonReader::skip_value(unsigned depth) {
  const char first = next();
  if (first != '{' && first != '[') return skip_scalar();
  if (depth == 0) cursor_.refuse("fewer levels of objects and lists");
  const auto skip_inner = [&] { skip_value(depth - 1); };
  if (first == '[') return list(skip_inner);
  object([&](const std::string&) { skip_inner(); });
}

void JsonReader::skip_scalar() {
  if (next() == '"') {
    (void)text();
    return;
  }
  if (skip_number() || skip_null() || cursor_.skip("true") || cursor_.skip("false")) return;
  cursor_.refuse("a value");
}

bool JsonReader::skip_number() noexcept {
  const std::string_view rest = cursor_.rest();
  std::size_t at = 0;
  const auto takes = [&](std::string_view any) {
    const bool found = at < rest.size() && any.find(rest[at]) != any.npos;
    at += found ? 1 : 0;
    return found;
  };
  const auto takes_digits = [&] {
    const std::size_t first = at;
    while (takes("0123456789")) continue;
    return at != first;
  };
  (void)takes("-");
  if (!takes("0") && !takes_digits()) return false;
  if (takes(".") && !takes_digits()) return false;
  if (takes("eE")) {
    (void)takes("+-");
    if (!takes_digits()) return false;
  }
  cursor_.advance(at);
  return true;
}

std::string JsonReader::text() {
  if (!cursor_.skip('"')) cursor_.refuse("a text");
  std::string text;
  while (true) {
    const std::string_view rest = cursor_.rest();
    std::size_t plain = 0;
    while (plain < rest.size() && is_plain(rest[plain])) ++plain;
    const std::string_view part = rest.substr(0, plain);
    if (!platform::is_utf8(part)) cursor_.refuse("UTF-8");
    text += part;
    cursor_.advance(plain);
    if (plain == rest.size() || static_cast<unsigned char>(rest[plain]) < 0x20)
      cursor_.refuse("the end of a text");
    cursor_.advance(1);
    if (rest[plain] == '"') return text;
    escaped(text);
  }
}

// Reads the rest of an escape after its backslash.
void JsonReader::escaped(std::string& text) {
  static constexpr std::string_view kNames = "\"\\/bfnrtu";
  static constexpr std::string_view kMeant = "\"\\/\b\f\n\r\t";
  const std::string_view rest = cursor_.rest();
  const std::size_t which = rest.empty() ? kNames.npos : kNames.find(rest[0]);
  if (which == kNames.npos) cursor_.refuse("one of \"\\/bfnrtu behind a backslash");
  cursor_.advance(1);
  if (which < kMeant.size())
    text += kMeant[which];
  else
    append_utf8(text, code_point());
}

// Reads the rest of an escape after \u; a character above U+FFFF is a pair of escapes.
std::uint32_t JsonReader::code_point() {
  const std::uint32_t first = hexadecimal();
  if (first < 0xD800 || first > 0xDFFF) return first;
  if (first > 0xDBFF || !cursor_.rest().starts_with("\\u")) cursor_.refuse("both surrogates");
  cursor_.advance(2);
  const std::uint32_t second = hexadecimal();
  if (second < 0xDC00 || second > 0xDFFF) cursor_.refuse("both surrogates");
  return 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
}

std::uint32_t JsonReader::hexadecimal() {
  const std::string_view digits = cursor_.rest().substr(0, 4);
  std::uint32_t number = 0;
  const char* const end = digits.data() + digits.size();
  if (digits.size() < 4 || std::from_chars(digits.data(), end, number, 16).ptr != end)
    cursor_.refuse("four hexadecimal digits");
  cursor_.advance(4);
  return number;
}

}  // namespace tensorbus::tensor
