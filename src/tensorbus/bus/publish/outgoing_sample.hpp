#pragma once

#include <cstddef>

#include "tensorbus/device/gpu_stream.hpp"
#include "tensorbus/link/lease/published_sample.hpp"
#include "tensorbus/link/ring/sample_ring.hpp"

namespace tensorbus::bus {

// A message as links take it: its tensors are in the arena, and its descriptor is written.
struct OutgoingSample {
  link::Entry entry;
  link::PublishedRef issued;
  // The stream that writes it, as far as it lies on GPUs; else null.
  const platform::GpuStream* writer = nullptr;
  std::size_t copied_bytes = 0;
};

}  // namespace tensorbus::bus
