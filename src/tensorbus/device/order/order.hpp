#pragma once

#include "tensorbus/device/gpu.hpp"

namespace tensorbus::memory {

// How streams of this process wait for those of another (docs/cuda.md, "Order").
enum class OrderBy {
  kStreams,  // they wait for a counter, and write one
  kHost,     // who gives them a tensor waits first
};

// The first of them that works here, tried once for each device and process, or what
// TENSORBUS_CUDA_ORDER asks for. Thread-safe. Throws what the driver does when there is no telling.
OrderBy order_of(const platform::Gpu& device);

}  // namespace tensorbus::memory
