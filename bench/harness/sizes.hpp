#pragma once

#include <cstdint>

namespace bench {

// The sizes that one-way rows have, in C++ and in Python.
struct Size {
  const char* name;
  std::uint64_t bytes;
};
inline constexpr Size kSizes[] = {{"64 B", 64},
                                  {"64 KB", 1 << 16},
                                  {"1 MB", 1 << 20},
                                  {"24.9 MB", 1920 * 1080 * 3 * 4},
                                  {"100 MB", 100'000'000}};

}  // namespace bench
