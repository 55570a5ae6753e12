#pragma once

#include <chrono>

#include "tensorbus/device/gpu.hpp"
#include "tensorbus/device/order/order.hpp"

namespace tensorbus::memory {

// Each does once, with real calls, what tensors of a GPU need on their way, gives everything back,
// and throws an Error that names the call which failed.

// Memory is made, exported, imported again and mapped twice.
void try_shared_memory(const platform::Gpu& device);
// What was imported is mapped so that the device cannot write there.
void try_read_only_mapping(const platform::Gpu& device);
// A stream waits for another by a timeline, and answers; with kEvents or kHost one signals, and the
// host sees it. Takes at most twice `patience`; streams that have not gone on by then are left as
// they are, with the timeline that they may refer to.
void try_order(const platform::Gpu& device, std::chrono::nanoseconds patience, OrderBy order);
// Memory of cuMemAlloc gets a handle; to open it takes another process.
void try_legacy_ipc(const platform::Gpu& device);
// A memory pool is exported as a descriptor, and an allocation in it; to import them takes another
// process.
void try_pool_ipc(const platform::Gpu& device);
// Does the driver say that the reader can access the owner's memory?
void ask_for_peer_access(const platform::Gpu& reader, const platform::Gpu& owner);
// Memory of the owner is mapped for the reader. Only where the driver says that it can.
void try_peer_access(const platform::Gpu& reader, const platform::Gpu& owner);

}  // namespace tensorbus::memory
