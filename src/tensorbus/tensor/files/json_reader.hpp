#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tensorbus/tensor/files/text_cursor.hpp"

namespace tensorbus::tensor {

// Reads the JSON (RFC 8259) of file headers: objects, lists, strings and integers. The caller calls
// the method of the expected value, or skips the value. Strict: only UTF-8, no unpaired surrogates.
// Throws Error(kInvalidArgument) that names the position of the error.
class JsonReader {
 public:
  JsonReader(std::string_view what, std::string_view text) : cursor_(what, text) {}

  // Calls member(name) for each member; it must read the value.
  template <typename Member>
  void object(Member member) {
    cursor_.expect('{');
    if (cursor_.skip('}')) return;
    do {
      std::string name = text();
      cursor_.expect(':');
      member(std::move(name));
    } while (cursor_.skip(','));
    end_with('}');
  }
  // Calls item() for each item; it must read the item.
  template <typename Item>
  void list(Item item) {
    cursor_.expect('[');
    if (cursor_.skip(']')) return;
    do item();
    while (cursor_.skip(','));
    end_with(']');
  }
  std::string text();
  std::optional<std::int64_t> try_number() noexcept { return cursor_.try_number(); }
  // If null comes next, takes it and returns true.
  bool skip_null() noexcept { return cursor_.skip("null"); }
  // Skips any value. `depth`: the maximum number of nested objects and lists.
  void skip_value(unsigned depth);

  // Returns the first character of the next token.
  char next() noexcept { return cursor_.next(); }
  void end() { cursor_.expect_end(); }

 private:
  void end_with(char closing);
  void skip_scalar();
  bool skip_number() noexcept;
  void escaped(std::string& text);
  std::uint32_t hexadecimal();
  std::uint32_t code_point();

  TextCursor cursor_;
};

}  // namespace tensorbus::tensor
