#pragma once

#include <cstddef>

#include "tensorbus/device/gpu.hpp"

namespace tensorbus::platform {

// Keeps whole pages of host memory where they are, so that GPUs copy from them without a detour:
// they are only read so. The memory outlives it, and keeps its pages.
class HostPin {
 public:
  // Throws Error(kUnsupported) where the driver cannot do that, or Error(kSystem).
  HostPin(const std::byte* first, std::size_t bytes);
  ~HostPin();
  HostPin(const HostPin&) = delete;
  HostPin& operator=(const HostPin&) = delete;

 private:
  const std::byte* first_;
};

// Tries it out. Throws Error(kUnsupported) that says why not.
void require_pinning();

}  // namespace tensorbus::platform
