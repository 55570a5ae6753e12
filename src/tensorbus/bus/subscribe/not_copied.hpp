#pragma once

#include <cstdint>
#include <string>

#include "tensorbus/bus/domain/topic_name.hpp"

namespace tensorbus::bus {

// A sample with a tensor on a device of which there is no copy in host memory.
struct NotCopied {
  PublisherName publisher;
  std::uint64_t sequence = 0;
  std::string why;
};

}  // namespace tensorbus::bus
