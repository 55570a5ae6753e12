#pragma once

#include <memory>

#include "tensorbus/bus/session/lent_sample.hpp"
#include "tensorbus/link/lease/published_sample.hpp"
#include "tensorbus/link/ring/sample_ring.hpp"

namespace tensorbus::bus {

// What is held here, to be lent to somebody else under the names of those who own it: its bytes are
// touched by nobody. `issued` keeps it.
struct Reoffer {
  link::Entry entry;
  link::PublishedRef issued;
};
// On the event loop. Throws Error(kClosed) if what is our own of it is gone,
// Error(kOutOfMemory).
Reoffer reoffer(ParticipantContext& context, const std::shared_ptr<const LentSample>& held,
                memory::Grant grant);

}  // namespace tensorbus::bus
