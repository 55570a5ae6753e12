#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tensorbus/platform/export.hpp"
#include "tensorbus/platform/fd.hpp"

namespace tensorbus::tensor::mcap {

// A file to which pieces of memory are appended. Used by one thread.
class TENSORBUS_API FileOutput {
 public:
  // Makes the file. Throws Error(kInvalidArgument) if it exists and `overwrite` is false,
  // Error(kPermission), Error(kOutOfMemory) that names the limit, or Error(kSystem).
  FileOutput(std::string path, bool overwrite);

  // Appends the pieces. Returns 0, or the errno at which it stopped; then end() is after the
  // written bytes, perhaps within a piece.
  [[nodiscard]] int append(std::span<const std::span<const std::byte>> pieces) noexcept;
  // Drops everything from `end` on.
  void cut(std::uint64_t end) noexcept;

  std::uint64_t end() const noexcept { return end_; }
  const std::string& path() const noexcept { return path_; }

 private:
  const std::string path_;
  platform::Fd fd_;
  std::uint64_t end_ = 0;
};

}  // namespace tensorbus::tensor::mcap
