#pragma once

#include <regex.h>

#include <string>

namespace tensorbus::recording {

// A POSIX extended regular expression, of libc, for whole names of topics. libstdc++'s would be a
// tenth of the library, and use stack in proportion to the length of a name.
class NamePattern {
 public:
  // Throws Error(kInvalidArgument) for an invalid pattern.
  explicit NamePattern(const std::string& pattern);
  ~NamePattern() { ::regfree(&compiled_); }
  NamePattern(const NamePattern&) = delete;
  NamePattern& operator=(const NamePattern&) = delete;

  bool matches(const std::string& name) const noexcept;

 private:
  regex_t compiled_{};
};

}  // namespace tensorbus::recording
