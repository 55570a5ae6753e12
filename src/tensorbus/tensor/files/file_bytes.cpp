#include "tensorbus/tensor/files/file_bytes.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "tensorbus/platform/error.hpp"

namespace tensorbus::tensor {

FileBytes::FileBytes(int fd) : fd_(fd) {
  struct stat status{};
  if (::fstat(fd, &status) < 0) throw_system("examining it", errno);
  size_ = static_cast<std::size_t>(status.st_size);
}

// Allocates at most the size of the file, even if `count`, from a header, is larger.
std::string FileBytes::read(std::size_t offset, std::size_t count) const {
  std::string bytes(offset < size_ ? std::min(count, size_ - offset) : 0, '\0');
  std::size_t got = 0;
  while (got < bytes.size()) {
    const ssize_t part =
        ::pread(fd_, bytes.data() + got, bytes.size() - got, static_cast<off_t>(offset + got));
    if (part < 0 && errno == EINTR) continue;
    if (part < 0) throw_system("reading its header", errno);
    if (part == 0) break;
    got += static_cast<std::size_t>(part);
  }
  bytes.resize(got);
  return bytes;
}

}  // namespace tensorbus::tensor
