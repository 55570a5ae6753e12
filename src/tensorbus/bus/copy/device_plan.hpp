#pragma once

#include <cstddef>
#include <vector>

#include "tensorbus/device/gpu_stream.hpp"

namespace tensorbus::bus {

// Plans the copy of memory ranges into one block on a device. Ranges that overlap (views of one
// another) become one range, which is copied once; the copies are views of one another, too.
// Elements keep their relative places and are not packed. Not thread-safe.
class DevicePlan {
 public:
  // `packed_bytes`: the number of bytes that belong to elements.
  void add(const std::byte* begin, std::size_t bytes, std::size_t packed_bytes);
  // Gives each range its place; returns the size of the block in bytes.
  std::size_t lay_out();
  // Throws Error(kUnsupported) if too few bytes of a range belong to elements.
  void require_dense() const;
  // Returns the place in the block of the copy of an added byte.
  std::size_t place_of(const std::byte* byte) const;
  std::size_t bytes() const;  // in total, to copy
  // Throws the driver's errors.
  void copy_on(const device::GpuStream& stream, std::byte* block) const;

 private:
  struct Stretch {
    const std::byte* begin = nullptr;
    const std::byte* end = nullptr;
    std::size_t packed_bytes = 0;
    std::size_t place = 0;
  };
  std::vector<Stretch> stretches_;  // after lay_out(): by ascending address
};

}  // namespace tensorbus::bus
