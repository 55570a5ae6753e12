#pragma once

#include <cstdint>
#include <string>

#include "tensorbus/bus/domain/topic_name.hpp"

namespace tensorbus::bus {

// The samples from `first` to before `end` of a publisher, which its subscriber does not get. They
// were dropped; or the last of them could not be read, for example because a copy to host memory
// failed.
struct MissingSamples {
  PublisherName publisher;
  std::uint64_t first = 0;
  std::uint64_t end = 0;
  std::string why;  // why the last could not be read; empty: dropped
};

}  // namespace tensorbus::bus
