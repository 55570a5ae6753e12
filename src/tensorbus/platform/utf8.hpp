#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tensorbus::platform {

// Returns how many bytes at the start of `text`, which is not empty, form one character of UTF-8; 0
// if none do (Unicode 15, table 3-7).
std::size_t utf8_bytes(std::string_view text) noexcept;
bool is_utf8(std::string_view text) noexcept;
// Returns the text, with "\xe9" in place of a byte that is no part of a character.
std::string to_utf8(std::string_view text);

// The same for a printable character: 0 for control characters, also C1 (U+0080 to U+009F).
std::size_t printable_bytes(std::string_view text) noexcept;

// Returns a text that others chose, for a message: in quotes, with question marks for bytes that
// cannot be printed. Of a longer text only the first 60 bytes.
std::string in_quotes(std::string_view text);

}  // namespace tensorbus::platform
