#pragma once

#include <memory>
#include <optional>
#include <tensorbus/device.hpp>
#include <tensorbus/options.hpp>

#include "tensorbus/bus/copy/device_copier.hpp"
#include "tensorbus/memory/grant.hpp"

namespace tensorbus::bus {

// What has to be granted for this access.
inline memory::Grant grant_for(Access access) noexcept {
  return access == Access::kShared ? memory::Grant::kWrite : memory::Grant::kRead;
}

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
