#pragma once

#include "tensorbus/device/gpu.hpp"

namespace tensorbus::device {

// How streams of this process wait for streams of another one (docs/cuda.md, "Order").
enum class OrderBy {
  kStreams,  // streams wait for a counter and write one
  kHost,     // the thread that gives them a tensor waits first
};

// Returns the first way that works on this device, tested once for each device and process, or the
// one that TENSORBUS_CUDA_ORDER names. Thread-safe. Throws the driver's errors.
OrderBy order_of(const Gpu& device);

}  // namespace tensorbus::device
