#include "tensorbus/platform/files/mapping.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <string>
#include <utility>

#include "tensorbus/platform/limits.hpp"

namespace tensorbus::platform {
namespace {

[[noreturn]] void cannot_map(std::size_t bytes, Mapping::Access access, int error_number) {
  throw_system(
      "cannot map " + std::to_string(bytes) + " bytes of shared memory", error_number,
      access == Mapping::Access::kCopyOnWrite ? During::kPrivateMapping : During::kMapping);
}

}  // namespace

Mapping::Mapping(int fd, std::size_t bytes, Access access, std::size_t offset) : bytes_(bytes) {
  const int protection = access == Access::kRead ? PROT_READ : PROT_READ | PROT_WRITE;
  const int flags = access == Access::kCopyOnWrite ? MAP_PRIVATE | MAP_NORESERVE : MAP_SHARED;
  void* address = ::mmap(nullptr, bytes, protection, flags, fd, static_cast<off_t>(offset));
  if (address == MAP_FAILED) cannot_map(bytes, access, errno);
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
