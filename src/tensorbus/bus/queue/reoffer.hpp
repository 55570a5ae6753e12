#pragma once

#include <memory>

#include "tensorbus/bus/session/lent_sample.hpp"
#include "tensorbus/link/lease/published_sample.hpp"
#include "tensorbus/link/ring/sample_ring.hpp"

namespace tensorbus::bus {

// A held sample that is ready to be lent to another process, under its owners' names for the
// memory. Its tensors are not touched. `issued` keeps them.
struct Reoffer {
  link::Entry entry;
  link::PublishedRef issued;
};
// Makes a Reoffer. On the event loop only. Throws Error(kClosed) if a block of our own is gone,
// Error(kOutOfMemory).
Reoffer reoffer(ParticipantContext& context, const std::shared_ptr<const LentSample>& held,
                memory::Grant grant);

}  // namespace tensorbus::bus
