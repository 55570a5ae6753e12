#pragma once

#include <cstddef>

#include "tensorbus/device/gpu.hpp"

namespace tensorbus::device {

// Pins whole pages of host memory, so that GPUs copy directly from them. GPUs may only read them.
// The memory must outlive the pin, and keep its pages until then.
class HostPin {
 public:
  // Throws Error(kUnsupported) if the driver cannot pin, else Error(kSystem).
  HostPin(const std::byte* first, std::size_t bytes);
  ~HostPin();
  HostPin(const HostPin&) = delete;
  HostPin& operator=(const HostPin&) = delete;

 private:
  const std::byte* first_;
};

// Pins a page as a test. Throws Error(kUnsupported) with the reason if that fails.
void require_pinning();

}  // namespace tensorbus::device
