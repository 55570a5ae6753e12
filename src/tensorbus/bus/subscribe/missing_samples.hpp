#pragma once

#include <cstdint>
#include <string>

#include "tensorbus/bus/domain/topic_name.hpp"

namespace tensorbus::bus {

// Samples of a publisher that its subscriber does not get, from `first` to before `end`. They were
// dropped before the next sample that it got, or before the publisher closed. Or the last of them,
// with a tensor on a device, could not be copied to host memory.
struct MissingSamples {
  PublisherName publisher;
  std::uint64_t first = 0;
  std::uint64_t end = 0;
  std::string why;  // why the last could not be copied; empty: dropped
};

}  // namespace tensorbus::bus
