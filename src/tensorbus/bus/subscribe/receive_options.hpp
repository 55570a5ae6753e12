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
  // Tensors on devices come as copies in host memory, also those that this process could use.
  bool in_host_memory = false;
};

}  // namespace tensorbus::bus
