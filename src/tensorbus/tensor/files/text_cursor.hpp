#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tensorbus {

// Reads a text that somebody else wrote from its front to its end, past blanks. What is not as
// expected is Error(kInvalidArgument) that says where, what was expected and what is there.
class TextCursor {
 public:
  // `what` is what messages call the text.
  TextCursor(std::string_view what, std::string_view text) : what_(what), text_(text) {}

  // The next character that is no blank, which stays there; 0 at the end.
  char next() noexcept;
  // Goes past it if it is this one.
  bool skip(char wanted) noexcept;
  bool skip(std::string_view wanted) noexcept;
  void expect(char wanted);
  void expect_end();
  // A whole number of at most 2^63 - 1, without a sign or zeros before it. If it is anything else,
  // nothing, and it stays there.
  std::optional<std::int64_t> try_number() noexcept;

  // Just as they are, blanks too.
  std::string_view rest() const noexcept { return text_.substr(at_); }
  void advance(std::size_t bytes) noexcept { at_ += bytes; }

  [[noreturn]] void refuse(std::string_view expected) const;

 private:
  std::string_view what_;
  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace tensorbus
