#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tensorbus/device/gpu_stream.hpp"

namespace tensorbus::bus {

// Where stretches of memory go in a block on a device that takes their copies. Those that overlap,
// of views of one another, are one stretch, which is copied once: the copies are views of one
// another, too. Elements keep their places to one another, since nothing there packs them.
class DevicePlan {
 public:
  // `packed_bytes`: how many of them are elements'.
  void add(const std::byte* begin, std::size_t bytes, std::size_t packed_bytes);
  // Gives each stretch its place; returns the bytes of the block.
  std::size_t lay_out();
  // Throws Error(kUnsupported) for a stretch that has too few elements in it.
  void require_dense() const;
  // Of a byte that was added: where its copy lies in the block.
  std::size_t place_of(const std::byte* byte) const;
  std::size_t bytes() const;  // that are copied
  // Throws what the driver says.
  void copy_on(const platform::GpuStream& stream, std::byte* block) const;

 private:
  struct Stretch {
    const std::byte* begin = nullptr;
    const std::byte* end = nullptr;
    std::size_t packed_bytes = 0;
    std::size_t place = 0;
  };
  std::vector<Stretch> stretches_;  // once they are laid out: the lowest first
};

}  // namespace tensorbus::bus
