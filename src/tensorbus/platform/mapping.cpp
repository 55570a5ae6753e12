#include "tensorbus/platform/mapping.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <string>
#include <utility>

#include "tensorbus/platform/error.hpp"

namespace tensorbus::platform {

Mapping::Mapping(int fd, std::size_t bytes, Access access) : bytes_(bytes) {
  const int protection = access == Access::kRead ? PROT_READ : PROT_READ | PROT_WRITE;
  void* address = ::mmap(nullptr, bytes, protection, MAP_SHARED, fd, 0);
  if (address == MAP_FAILED) {
    if (errno == ENOMEM)
      throw Error(Code::kOutOfMemory, "cannot map " + std::to_string(bytes) +
                                          " bytes: address space (RLIMIT_AS) or mapping count "
                                          "(vm.max_map_count) is used up");
    throw_system("mapping shared memory", errno);
  }
  data_ = static_cast<std::byte*>(address);
  ::madvise(address, bytes, MADV_DONTDUMP);
}

Mapping::Mapping(Mapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Mapping::~Mapping() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

}  // namespace tensorbus::platform
