#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <tensorbus/id.hpp>

#include "tensorbus/platform/fd.hpp"

namespace tensorbus::memory {

// Which part of which file a segment is.
struct FileRange {
  std::uint64_t offset = 0;
  std::string path{};
};

// A segment as one process gives it to another.
struct SharedSegment {
  platform::Fd fd;
  std::size_t bytes = 0;
  std::optional<FileRange> file{};
  Id device{};  // of memory of a GPU: its UUID
};

}  // namespace tensorbus::memory
