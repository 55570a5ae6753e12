#pragma once

#include <tensorbus/c/file.h>

#include <utility>

namespace tensorbus::inline v0 {
namespace internal {

// A counted reference to a mapped file; the file stays mapped while one exists.
class FileRef {
 public:
  FileRef() = default;
  explicit FileRef(tb_file* given) noexcept : file_(given) {}
  FileRef(const FileRef& other) noexcept : file_(other.file_) {
    if (file_ != nullptr) tb_file_retain(file_);
  }
  FileRef(FileRef&& other) noexcept : file_(std::exchange(other.file_, nullptr)) {}
  FileRef& operator=(FileRef other) noexcept {
    std::swap(file_, other.file_);
    return *this;
  }
  ~FileRef() {
    if (file_ != nullptr) tb_file_release(file_);
  }

  using pointer = tb_file*;
  tb_file* get() const noexcept { return file_; }
  explicit operator bool() const noexcept { return file_ != nullptr; }

 private:
  tb_file* file_ = nullptr;
};

}  // namespace internal
}  // namespace tensorbus::inline v0
