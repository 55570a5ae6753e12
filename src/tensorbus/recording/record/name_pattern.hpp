#pragma once

#include <regex.h>

#include <string>

namespace tensorbus::recording {

// A POSIX extended regular expression for whole names of topics, from libc. The code of std::regex
// would be a tenth of this library, and it uses stack in proportion to the length of a name.
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
