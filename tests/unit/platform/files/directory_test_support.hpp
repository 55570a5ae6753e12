#pragma once

// For tests of directories: what is in one, and who may use it.

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tensorbus/platform/files/directory.hpp"
#include "tests/unit/platform/test_support.hpp"

namespace tensorbus::test {

// The permissions of a file or directory.
inline mode_t mode_of(const std::string& path) {
  struct stat status{};
  EXPECT_EQ(::stat(path.c_str(), &status), 0);
  return status.st_mode & 07777;
}

// Sorted, without "." and "..".
inline std::vector<std::string> names_in(int directory) {
  std::vector<std::string> names = platform::list_directory(directory);
  std::erase_if(names, [](const std::string& name) { return name == "." || name == ".."; });
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace tensorbus::test
