#pragma once

#include <memory>
#include <optional>
#include <tensorbus/device.hpp>
#include <tensorbus/options.hpp>

#include "tensorbus/bus/copy/device_copier.hpp"

namespace tensorbus::bus {

// How a receiver wants its samples.
struct ReceiveOptions {
  Access access = Access::kRead;
  // The destination of tensors that were published on a device and came in host memory.
  std::optional<Device> device{};
  // Null: tensors on devices can neither be restored nor copied.
  std::shared_ptr<DeviceCopier> copier{};
};

}  // namespace tensorbus::bus
