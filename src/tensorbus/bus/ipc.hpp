#pragma once

#include <array>
#include <cstddef>
#include <tensorbus/values/layout.hpp>

#include "tensorbus/bus/subscribe/sample.hpp"
#include "tensorbus/device/memory/ipc_memory.hpp"
#include "tensorbus/platform/export.hpp"

namespace tensorbus::bus {

// Raw CUDA IPC handles, for the C interface and the Python extension.
// include/tensorbus/c/ipc.h describes the calls and their errors.

// Returns the handle of the allocation that contains these bytes of a GPU.
TENSORBUS_API device::IpcName ipc_name_of(const void* data, std::size_t bytes);

// Returns a sample of one tensor, whose first element is `offset` bytes behind the first byte of
// the allocation. Does not use the bus.
TENSORBUS_API Sample open_ipc(const std::array<std::byte, 64>& handle, std::size_t offset,
                              const Layout& layout, Device device);

}  // namespace tensorbus::bus
