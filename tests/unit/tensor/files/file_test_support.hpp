#pragma once

// For tests only: a file of any content that has no name.

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

#include "tensorbus/platform/fd.hpp"
#include "tensorbus/tensor/files/file_bytes.hpp"

namespace tensorbus::test {

class Content {
 public:
  explicit Content(std::string_view bytes) : fd_(::memfd_create("content", MFD_CLOEXEC)) {
    if (::write(fd_.get(), bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()))
      std::abort();
  }
  tensor::FileBytes bytes() const { return tensor::FileBytes(fd_.get()); }

 private:
  platform::Fd fd_;
};

}  // namespace tensorbus::test
