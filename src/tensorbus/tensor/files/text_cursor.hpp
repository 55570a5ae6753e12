#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tensorbus::tensor {

// Reads an untrusted text from front to end and skips blanks. Throws Error(kInvalidArgument) with
// the position, and the expected and the actual text.
class TextCursor {
 public:
  // `what` names the text in messages.
  TextCursor(std::string_view what, std::string_view text) : what_(what), text_(text) {}

  // Returns the next character that is not blank, without taking it; 0 at the end.
  char next() noexcept;
  // If `wanted` comes next, takes it and returns true.
  bool skip(char wanted) noexcept;
  bool skip(std::string_view wanted) noexcept;
  void expect(char wanted);
  void expect_end();
  // Takes an integer from 0 to 2^63 - 1 without sign or leading zeros. If anything else comes next,
  // takes no characters and returns an empty result.
  std::optional<std::int64_t> try_number() noexcept;

  // These two do not skip blanks.
  std::string_view rest() const noexcept { return text_.substr(at_); }
  void advance(std::size_t bytes) noexcept { at_ += bytes; }

  [[noreturn]] void refuse(std::string_view expected) const;

 private:
  std::string_view what_;
  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace tensorbus::tensor
