#pragma once

#include <regex.h>

#include <string>

namespace tensorbus::bus {

// A regular expression for whole names of topics: POSIX's extended ones, of libc. Those of
// libstdc++ would be a tenth of the library, and use the stack as long as a name is.
class NamePattern {
 public:
  // Throws Error(kInvalidArgument) if this is none.
  explicit NamePattern(const std::string& pattern);
  ~NamePattern() { ::regfree(&compiled_); }
  NamePattern(const NamePattern&) = delete;
  NamePattern& operator=(const NamePattern&) = delete;

  bool matches(const std::string& name) const noexcept;

 private:
  regex_t compiled_{};
};

}  // namespace tensorbus::bus
