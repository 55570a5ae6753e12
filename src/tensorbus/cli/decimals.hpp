#pragma once

#include <string>

// Numbers and their decimal digits. Not std::to_chars and std::from_chars of floats: the libstdc++
// of the oldest systems for which there are wheels does not have them.
namespace tensorbus::cli {

// Returns the fewest digits that are read as this number again, as "12.5", "3" or, if
// `is_scientific`, "1.25e+01". The number is finite.
std::string fewest_digits(double number, bool is_scientific);

// Returns the number in a text such as "-1.5e3"; NaN for other text, "+1" and " 1" too. A number
// that is too large is infinite.
double decimal_in(const std::string& text);

}  // namespace tensorbus::cli
