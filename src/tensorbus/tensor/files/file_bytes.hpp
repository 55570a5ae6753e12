#pragma once

#include <cstddef>
#include <string>

#include "tensorbus/platform/export.hpp"

namespace tensorbus::tensor {

// Reads the header of a file by system calls, so that cutting the file short cannot raise SIGBUS.
// The caller keeps the descriptor.
class TENSORBUS_API FileBytes {
 public:
  // Throws Error(kSystem).
  explicit FileBytes(int fd);

  std::size_t size() const noexcept { return size_; }  // at construction
  // Reads `count` bytes, or fewer at the end of the file. Throws Error(kSystem).
  std::string read(std::size_t offset, std::size_t count) const;

 private:
  int fd_;
  std::size_t size_ = 0;
};

}  // namespace tensorbus::tensor
