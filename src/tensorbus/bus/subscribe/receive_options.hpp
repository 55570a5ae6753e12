#pragma once

#include <memory>
#include <optional>
#include <tensorbus/device.hpp>
#include <tensorbus/options.hpp>
#include <tensorbus/stats.hpp>

#include "tensorbus/bus/copy/device_copier.hpp"

namespace tensorbus::bus {

// How a sample is wanted.
struct ReceiveOptions {
  Access access = Access::kRead;
  // Where tensors go that were on a device and came in host memory.
  std::optional<Device> device{};
  // Null: tensors on devices can neither be restored nor copied.
  std::shared_ptr<DeviceCopier> copier{};
};

}  // namespace tensorbus::bus
