#pragma once

#include <cstddef>

namespace tensorbus::platform {

// Owns one mapping of a file descriptor, usually of the whole file. Core dumps leave it out.
// Closing the descriptor does not end the mapping.
class Mapping {
 public:
  enum class Access {
    kRead,
    kReadWrite,
    kCopyOnWrite,  // a written page becomes private; a read-only descriptor is enough
  };

  Mapping() = default;
  // `offset` is a multiple of the page size. Throws Error(kOutOfMemory) that names the limits if no
  // more mappings are possible, else Error(kSystem).
  Mapping(int fd, std::size_t bytes, Access access, std::size_t offset = 0);
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
