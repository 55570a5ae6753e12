#pragma once

#include <string>
#include <tensorbus/values/value.hpp>

namespace tensorbus::cli {

// Returns the value of a text that is JSON or a simple literal of Python: a number, text, bytes, a
// list, tuple, dict or set. Complex numbers, prefixes of texts other than b, texts in three quotes,
// texts beside each other and comments are not read. Throws CLI::ValidationError for any other
// text.
Value literal_in(const std::string& text);

}  // namespace tensorbus::cli
