#include "tensorbus/cli/decimals.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace tensorbus::cli {
namespace {

std::string formatted(const char* format, int precision, double number) {
  std::array<char, 400> text{};
  (void)std::snprintf(text.data(), text.size(), format, precision, number);
  return text.data();
}

// Returns a number as "1.25e+01" whose last digit before the exponent is one more; "" for a 9
// there.
std::string raised(std::string scientific) {
  char& digit = scientific[scientific.find('e') - 1];
  if (digit == '9') return "";
  ++digit;
  return scientific;
}

// Returns the number with so many significant digits, if they are enough to read it again; else "".
// For a power of two these may be others than the nearest: the numbers below it are half as far
// apart as those above.
std::string shortest(double number, int digits) {
  const std::string nearest = formatted("%.*e", digits - 1, number);
  for (const std::string& each : {nearest, raised(nearest)})
    if (!each.empty() && std::strtod(each.c_str(), nullptr) == number) return each;
  return "";
}

}  // namespace

std::string fewest_digits(double number, bool is_scientific) {
  int digits = 1;
  std::string scientific = shortest(number, digits);
  while (scientific.empty()) scientific = shortest(number, ++digits);
  if (is_scientific) return scientific;
  const int exponent = std::atoi(scientific.c_str() + scientific.find('e') + 1);
  return formatted("%.*f", std::max(digits - 1 - exponent, 0), number);
}

double decimal_in(const std::string& text) {
  const bool is_decimal = !text.empty() && text.front() != '+' &&
                          text.find_first_not_of("0123456789.eE+-") == std::string::npos;
  char* end = nullptr;
  const double number = is_decimal ? std::strtod(text.c_str(), &end) : std::nan("");
  return is_decimal && end == text.c_str() + text.size() ? number : std::nan("");
}

}  // namespace tensorbus::cli
