#pragma once

#include <cstddef>

namespace tensorbus::platform {

// Owns one shared mapping of a whole descriptor; left out of core dumps. Closing the descriptor
// does not end it.
class Mapping {
 public:
  enum class Access { kRead, kReadWrite };

  Mapping() = default;
  // Throws Error(kOutOfMemory) when there is no address space, Error(kSystem) otherwise.
  Mapping(int fd, std::size_t bytes, Access access);
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();

  std::byte* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace tensorbus::platform
