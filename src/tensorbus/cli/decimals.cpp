#include "tensorbus/cli/decimals.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace tensorbus::cli {
namespace {

constexpr int kEnough = 17;  // significant digits, for each number

std::string formatted(const char* format, int precision, double number) {
  std::array<char, 400> text{};
  (void)std::snprintf(text.data(), text.size(), format, precision, number);
  return text.data();
}

}  // namespace

std::string fewest_digits(double number, bool is_scientific) {
  int digits = 1;  // significant
  std::string scientific = formatted("%.*e", digits - 1, number);
  while (digits < kEnough && std::strtod(scientific.c_str(), nullptr) != number)
    scientific = formatted("%.*e", digits++, number);
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
