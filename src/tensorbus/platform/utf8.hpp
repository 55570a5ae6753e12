#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tensorbus::platform {

// Returns the length in bytes of the UTF-8 character at the start of `text`, which is not empty; 0
// if it is invalid (Unicode 15, table 3-7).
std::size_t utf8_bytes(std::string_view text) noexcept;
bool is_utf8(std::string_view text) noexcept;
// Returns the text with invalid bytes as "\xe9".
std::string to_utf8(std::string_view text);

// As utf8_bytes(), but returns 0 for control characters too, including C1 (U+0080 to U+009F).
std::size_t printable_bytes(std::string_view text) noexcept;

// Returns untrusted text in a form for messages: in quotes, with question marks for bytes that
// cannot be printed, cut off after 60 bytes.
std::string in_quotes(std::string_view text);

}  // namespace tensorbus::platform
