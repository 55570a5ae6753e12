#pragma once

#include <cstddef>

#include "tensorbus/link/issued_sample.hpp"
#include "tensorbus/link/sample_ring.hpp"
#include "tensorbus/platform/cuda_stream.hpp"

namespace tensorbus::bus {

// A message as links take it: its tensors are in the arena, and its descriptor is written.
struct ReadySample {
  link::Entry entry;
  link::IssuedRef issued;
  // The stream that writes it, as far as it lies on GPUs; else null.
  const platform::CudaStream* writer = nullptr;
  std::size_t copied_bytes = 0;
};

}  // namespace tensorbus::bus
