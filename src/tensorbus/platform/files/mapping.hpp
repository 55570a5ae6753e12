#pragma once

#include <cstddef>

namespace tensorbus::platform {

// Owns one mapping of a descriptor, as a rule of all of it; left out of core dumps. Closing the
// descriptor does not end it.
class Mapping {
 public:
  enum class Access {
    kRead,
    kReadWrite,
    kCopyOnWrite,  // a page that is written becomes our own; a read-only descriptor is enough
  };

  Mapping() = default;
  // `offset` is a multiple of the page. Throws Error(kOutOfMemory) that names the limits when there
  // is no room for another mapping, Error(kSystem) otherwise.
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
