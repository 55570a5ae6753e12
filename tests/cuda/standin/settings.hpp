#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace standin {

// After `remaining_calls`, every call returns `result`; 0 means no failure.
struct Failure {
  int remaining_calls = 0;
  int result = 0;
};

// The machine that the environment describes; see control.hpp.
struct Settings {
  std::vector<int> physical;  // by ordinal: the number on the machine
  std::set<std::string> without;
  std::size_t memory_bytes = 0;
  std::map<std::string, Failure> failures;  // by symbol

  bool has(const char* feature) const { return !without.contains(feature); }
};

Settings read_settings();

}  // namespace standin
