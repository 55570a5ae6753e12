#pragma once

#include <chrono>

#include "tensorbus/device/gpu.hpp"
#include "tensorbus/device/order/order.hpp"

namespace tensorbus::device {

// Each function performs one step that GPU tensors need, with real calls, and releases everything
// that it made. It throws an Error that names the failed call.

// Makes memory, exports it, imports it and maps it twice.
void try_shared_memory(const Gpu& device);
// Maps imported memory so that the device cannot write to it.
void try_read_only_mapping(const Gpu& device);
// Makes one stream wait for another by a timeline, and signal in reply. With kHost, one stream
// signals and the host reads the value. Takes at most twice `patience`. A stream that has not
// finished by then is not destroyed, nor is the timeline to which it may refer.
void try_order(const Gpu& device, std::chrono::nanoseconds patience, OrderBy order);
// Makes a handle for memory of cuMemAlloc. Does not open it: only another process could do that.
void try_legacy_ipc(const Gpu& device);
// Exports a memory pool and an allocation in it. Does not import them: only another process could
// do that.
void try_pool_ipc(const Gpu& device);
// Throws if the driver reports that the reader cannot access the owner's memory.
void ask_for_peer_access(const Gpu& reader, const Gpu& owner);
// Maps memory of the owner for the reader. Call it only if ask_for_peer_access() does not throw.
void try_peer_access(const Gpu& reader, const Gpu& owner);

}  // namespace tensorbus::device
