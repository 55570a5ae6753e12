#include "tensorbus/recording/record/name_pattern.hpp"

#include <array>

#include "tensorbus/platform/error.hpp"

namespace tensorbus::recording {
namespace {

void compile(regex_t& into, const std::string& whole, const std::string& pattern) {
  const int error = ::regcomp(&into, whole.c_str(), REG_EXTENDED | REG_NOSUB);
  if (error == 0) return;
  std::array<char, 256> text{};
  ::regerror(error, &into, text.data(), text.size());
  throw Error(Code::kInvalidArgument,
              "regex: '" + pattern + "' is not a regular expression: " + text.data());
}

}  // namespace

NamePattern::NamePattern(const std::string& pattern) {
  // Compiles the pattern first without parentheses: inside parentheses, the invalid "a)(b" would be
  // valid.
  compile(compiled_, pattern, pattern);
  ::regfree(&compiled_);
  compile(compiled_, "^(" + pattern + ")$", pattern);
}

bool NamePattern::matches(const std::string& name) const noexcept {
  return ::regexec(&compiled_, name.c_str(), 0, nullptr, 0) == 0;
}

}  // namespace tensorbus::recording
