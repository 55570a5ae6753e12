#pragma once

#include <cstddef>
#include <string>

#include "tensorbus/platform/export.hpp"

namespace tensorbus {

// A file, as who reads its header sees it: by system calls, so that one which somebody cuts short
// at this moment is no danger. The descriptor stays the caller's.
class TENSORBUS_API FileBytes {
 public:
  // Throws Error(kSystem).
  explicit FileBytes(int fd);

  std::size_t size() const noexcept { return size_; }  // when it was opened
  // Fewer, if it ends before. Throws Error(kSystem).
  std::string read(std::size_t offset, std::size_t count) const;

 private:
  int fd_;
  std::size_t size_ = 0;
};

}  // namespace tensorbus
