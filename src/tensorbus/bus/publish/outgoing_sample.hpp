#pragma once

#include <cstddef>

#include "tensorbus/device/gpu_stream.hpp"
#include "tensorbus/link/lease/published_sample.hpp"
#include "tensorbus/link/ring/sample_ring.hpp"

namespace tensorbus::bus {

// A message that is ready for links: its tensors are in place, and its descriptor is written.
struct OutgoingSample {
  link::Entry entry;
  link::PublishedRef issued;
  // The stream that writes the tensors on GPUs; null without tensors there.
  const device::GpuStream* writer = nullptr;
  std::size_t copied_bytes = 0;
  std::size_t bytes = 0;  // of its tensors and fields
};

// Sequence number and publishing time of a mirror's original sample.
struct Stamp {
  std::uint64_t sequence = 0;
  std::uint64_t timestamp_ns = 0;
};

}  // namespace tensorbus::bus
