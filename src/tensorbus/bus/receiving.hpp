#pragma once

#include <memory>
#include <optional>

#include "tensorbus/bus/device_copier.hpp"
#include "tensorbus/bus/options.hpp"
#include "tensorbus/tensor/device.hpp"

namespace tensorbus::bus {

// How a sample is wanted.
struct Receiving {
  Access access = Access::kRead;
  // Where tensors go that were on a device and came in host memory.
  std::optional<Device> device{};
  // Null: tensors on devices can neither be restored nor copied.
  std::shared_ptr<DeviceCopier> copier{};
};

}  // namespace tensorbus::bus
