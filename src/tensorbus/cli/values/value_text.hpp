#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <tensorbus/values/value.hpp>

// Values as text, as Python writes them (`repr`).
namespace tensorbus::cli {

// The shortest text that gives the same number, with a point or an exponent: "1.5", "1e+22", "nan".
std::string number_text(double number);
// A number with at most six digits, as "%g" writes it.
std::string short_number_text(double number);
// The text of a complex number: "(1+2j)", "0.5j".
std::string complex_text(double real, double imaginary);
// The text in quotes, with Python's escapes: "it's", 'a\nb'. Characters that no terminal shows are
// escaped, too.
std::string text_literal(std::string_view text);

// Returns the text of a value without fields and tensors. Lists of more than six items, and texts
// and bytes of more than 120 characters, are shortened. These functions throw Error(kProtocol) for
// records of another process that have more than 64 levels.
std::string value_text(const Value& value);
// Returns the decimal digits of a whole number of more than 64 bits; nothing for other values.
std::optional<std::string> large_number_text(const Value& value);
// Returns the same as value_text() without limits.
std::string whole_text(const Value& value);
// Returns the text of the key of a map, and of a value in a table: texts have no quotes, and
// nothing is shortened.
std::string plain_text(const Value& value);

}  // namespace tensorbus::cli
