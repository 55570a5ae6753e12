#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tensorbus::platform {

// How many bytes at the start of `text`, which is not empty, are one character of UTF-8; 0 if none
// are (Unicode 15, table 3-7).
std::size_t utf8_bytes(std::string_view text) noexcept;
bool is_utf8(std::string_view text) noexcept;

// The same of a character that a terminal can be given: none for control characters, also those of
// C1, U+0080 to U+009F.
std::size_t printable_bytes(std::string_view text) noexcept;

// What somebody else chose, for a message: in quotes, with question marks for what is not
// printable; of a longer one the first 60 bytes.
std::string in_quotes(std::string_view text);

}  // namespace tensorbus::platform
