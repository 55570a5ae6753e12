#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tensorbus/platform/export.hpp"
#include "tensorbus/platform/fd.hpp"

namespace tensorbus::recording {

// A file that grows at its end, by pieces that lie in memory. For one thread.
class TENSORBUS_API FileOutput {
 public:
  // Makes the file. Throws Error(kInvalidArgument) if it exists and is not to be overwritten,
  // Error(kPermission), Error(kOutOfMemory) that names the limit, Error(kSystem).
  FileOutput(std::string path, bool overwrite);

  // Writes the pieces behind what is there. Returns 0, or the errno for which it stopped; end() is
  // then behind what was written, which may end within a piece.
  [[nodiscard]] int append(std::span<const std::span<const std::byte>> pieces) noexcept;
  // Gives up what lies behind `end`.
  void cut(std::uint64_t end) noexcept;

  std::uint64_t end() const noexcept { return end_; }
  const std::string& path() const noexcept { return path_; }

 private:
  const std::string path_;
  platform::Fd fd_;
  std::uint64_t end_ = 0;
};

}  // namespace tensorbus::recording
