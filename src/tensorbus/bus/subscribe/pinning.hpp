#pragma once

#include "tensorbus/bus/subscribe/sample.hpp"
#include "tensorbus/link/ring/borrower_link.hpp"

namespace tensorbus::bus {

enum class Pinning {
  kDone,   // pinned as far as the owner and the driver allow
  kAsked,  // PIN was sent: call again after the owner's reply, with the same sample
  kHalf,   // another pin ends in the middle of the sample: GPUs need a copy
};

// Pins the blocks of host memory that contain a sample of this link, as long as the sample is held.
Pinning pin_blocks(link::BorrowerLink& link, const Sample& sample);

}  // namespace tensorbus::bus
