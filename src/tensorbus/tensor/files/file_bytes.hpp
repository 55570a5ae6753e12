#pragma once

#include <cstddef>
#include <string>

#include "tensorbus/platform/export.hpp"

namespace tensorbus {

// Reads the header of a file by system calls, so that a file that is cut short meanwhile cannot
// raise SIGBUS. The caller keeps the descriptor.
class TENSORBUS_API FileBytes {
 public:
  // Throws Error(kSystem).
  explicit FileBytes(int fd);

  std::size_t size() const noexcept { return size_; }  // when this object was made
  // Reads `count` bytes, or fewer if the file ends before. Throws Error(kSystem).
  std::string read(std::size_t offset, std::size_t count) const;

 private:
  int fd_;
  std::size_t size_ = 0;
};

}  // namespace tensorbus
