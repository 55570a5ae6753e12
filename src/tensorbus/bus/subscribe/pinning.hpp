#pragma once

#include "tensorbus/bus/subscribe/sample.hpp"
#include "tensorbus/link/ring/borrower_link.hpp"

namespace tensorbus::bus {

enum class Pinning {
  kDone,   // as far as the owner and the driver allow
  kAsked,  // the owner: to be done again when it has answered, with the same sample
  kHalf,   // what is pinned for others ends in the middle of it: GPUs are to get a copy
};

// Pins the blocks of host memory that a sample of this link lies in, for as long as it is held.
Pinning pin_blocks(link::BorrowerLink& link, const Sample& sample);

}  // namespace tensorbus::bus
