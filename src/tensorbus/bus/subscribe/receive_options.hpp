#pragma once

#include <memory>
#include <optional>
#include <tensorbus/values/device.hpp>
#include <tensorbus/values/options.hpp>

#include "tensorbus/bus/copy/device_copier.hpp"
#include "tensorbus/memory/grant.hpp"

namespace tensorbus::bus {

// Returns the grant that this access needs.
inline memory::Grant grant_for(Access access) noexcept {
  return access == Access::kShared ? memory::Grant::kWrite : memory::Grant::kRead;
}

// The options for reading samples.
struct ReceiveOptions {
  Access access = Access::kRead;
  // The destination of tensors that were published on a device and came in host memory.
  std::optional<Device> device{};
  // Null: tensors on devices can neither be restored nor copied.
  std::shared_ptr<DeviceCopier> copier{};
  // Copies all tensors on devices to host memory, even from devices that this process can use.
  bool in_host_memory = false;
};

}  // namespace tensorbus::bus
