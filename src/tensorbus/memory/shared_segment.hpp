#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <tensorbus/values/id.hpp>

#include "tensorbus/platform/fd.hpp"

namespace tensorbus::memory {

// The part of a file that is a segment.
struct FileRange {
  std::uint64_t offset = 0;
  std::string path{};
};

// A segment as one process passes it to another.
struct SharedSegment {
  platform::Fd fd;
  std::size_t bytes = 0;
  std::optional<FileRange> file{};
  Id device{};  // of GPU memory: the device's UUID
};

}  // namespace tensorbus::memory
