#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tensorbus {

// Reads an untrusted text from front to end, past blanks. Throws Error(kInvalidArgument) with the
// place, what was expected and what is there.
class TextCursor {
 public:
  // `what` names the text in messages.
  TextCursor(std::string_view what, std::string_view text) : what_(what), text_(text) {}

  // Returns the next character that is not blank, without taking it; 0 at the end.
  char next() noexcept;
  // Takes it and returns true, if it comes next.
  bool skip(char wanted) noexcept;
  bool skip(std::string_view wanted) noexcept;
  void expect(char wanted);
  void expect_end();
  // Takes a whole number from 0 to 2^63 - 1, without a sign or leading zeros. Returns nothing, and
  // takes nothing, for anything else.
  std::optional<std::int64_t> try_number() noexcept;

  // These see the text as it is, with its blanks.
  std::string_view rest() const noexcept { return text_.substr(at_); }
  void advance(std::size_t bytes) noexcept { at_ += bytes; }

  [[noreturn]] void refuse(std::string_view expected) const;

 private:
  std::string_view what_;
  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace tensorbus
