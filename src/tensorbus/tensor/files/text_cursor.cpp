#include "tensorbus/tensor/files/text_cursor.hpp"

#include <charconv>
#include <system_error>

#include "tensorbus/platform/error.hpp"
#include "tensorbus/platform/utf8.hpp"

namespace tensorbus::tensor {
namespace {

// White space of JSON and Python.
constexpr std::string_view kBlanks = " \t\n\r";

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Returns true for characters that must not follow a number.
bool goes_on(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '_';
}

}  // namespace

char TextCursor::next() noexcept {
  while (at_ < text_.size() && kBlanks.find(text_[at_]) != kBlanks.npos) ++at_;
  return at_ < text_.size() ? text_[at_] : '\0';
}

bool TextCursor::skip(char wanted) noexcept { return skip(std::string_view(&wanted, 1)); }

bool TextCursor::skip(std::string_view wanted) noexcept {
  (void)next();
  if (!rest().starts_with(wanted)) return false;
  advance(wanted.size());
  return true;
}

void TextCursor::expect(char wanted) {
  if (!skip(wanted)) refuse(platform::in_quotes({&wanted, 1}));
}

void TextCursor::expect_end() {
  (void)next();
  if (!rest().empty()) refuse("its end");
}

std::optional<std::int64_t> TextCursor::try_number() noexcept {
  if (!is_digit(next())) return std::nullopt;
  const std::string_view digits = rest();
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  const auto bytes = static_cast<std::size_t>(end - digits.data());
  if (error != std::errc() || (digits[0] == '0' && bytes > 1)) return std::nullopt;
  if (bytes < digits.size() && goes_on(digits[bytes])) return std::nullopt;
  advance(bytes);
  return number;
}

void TextCursor::refuse(std::string_view expected) const {
  throw Error(Code::kInvalidArgument,
              std::string(what_) + ": byte " + std::to_string(at_) + ": expected " +
                  std::string(expected) + ", found " +
                  (rest().empty() ? "its end" : platform::in_quotes(rest().substr(0, 20))));
}

}  // namespace tensorbus::tensor
