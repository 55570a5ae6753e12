#pragma once

#include <string>
#include <tensorbus/values/value.hpp>

namespace tensorbus::cli {

// Returns the value of a text that is JSON or a literal of Python: numbers, texts, bytes, lists,
// tuples and dicts. Throws CLI::ValidationError for any other text.
Value literal_in(const std::string& text);

}  // namespace tensorbus::cli
