#pragma once

#include <memory>

#include "tensorbus/bus/held_sample.hpp"
#include "tensorbus/link/issued_sample.hpp"
#include "tensorbus/link/sample_ring.hpp"

namespace tensorbus::bus {

// What is held here, to be lent to somebody else under the names of those who own it: its bytes are
// touched by nobody. `issued` keeps it.
struct Onward {
  link::Entry entry;
  link::IssuedRef issued;
};
// On the service thread. Throws Error(kClosed) if what is our own of it is gone,
// Error(kOutOfMemory).
Onward onward(Surroundings& surroundings, const std::shared_ptr<const HeldSample>& held,
              memory::Grant grant);

}  // namespace tensorbus::bus
