#pragma once

#include "tensorbus/device/gpu.hpp"

namespace tensorbus::device {

// The way in which streams of this process wait for streams of another process (docs/cuda.md,
// "Order").
enum class OrderBy {
  kStreams,  // streams wait for counters and write counters
  kHost,     // the thread that gives a tensor to a stream waits first
};

// Returns the first way that works on this device, tested once for each device and process.
// TENSORBUS_CUDA_ORDER=host skips the test and selects kHost. Thread-safe. Throws the driver's
// errors, and Error(kInvalidArgument) for an invalid TENSORBUS_CUDA_ORDER.
OrderBy order_of(const Gpu& device);

}  // namespace tensorbus::device
