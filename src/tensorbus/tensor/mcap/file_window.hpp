#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "tensorbus/tensor/files/file_bytes.hpp"

namespace tensorbus::tensor::mcap {

// Reads parts of a file in ascending order with few system calls.
class FileWindow {
 public:
  explicit FileWindow(const FileBytes& file) : file_(file) {}

  const FileBytes& file() const noexcept { return file_; }
  // Returns these bytes; fewer at the end of the file. Valid until the next call.
  std::span<const std::byte> at(std::uint64_t offset, std::size_t count) {
    if (offset < begin_ || offset - begin_ > part_.size() ||
        count > part_.size() - (offset - begin_)) {
      const bool follows = offset >= begin_ && offset - begin_ <= part_.size() + kNear;
      part_ = file_.read(offset, std::max(count, follows ? kMany : kNear));
      begin_ = offset;
    }
    const auto bytes = std::as_bytes(std::span(part_)).subspan(offset - begin_);
    return bytes.first(std::min(count, bytes.size()));
  }

 private:
  static constexpr std::size_t kNear = 512;
  static constexpr std::size_t kMany = std::size_t{1} << 16;

  const FileBytes& file_;
  std::string part_;
  std::uint64_t begin_ = 0;
};

}  // namespace tensorbus::tensor::mcap
