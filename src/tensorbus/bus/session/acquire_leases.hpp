#pragma once

#include <functional>
#include <vector>

#include "tensorbus/bus/session/lent_sample.hpp"

namespace tensorbus::bus {

// The callbacks for a lent sample. Exactly one of them is called, once.
struct LentCallbacks {
  std::function<void(LentRef)> on_held;
  std::function<void(const Error&)> on_error;
};

// Acquires a sample that `from` has lent, and leases of the owners of memory that `from` has passed
// on. Called on the event loop; reads no tensor. Throws nothing: on an error, calls on_error and
// returns the lease. Returns the owners to which requests were sent.
std::vector<Id> acquire_leases(ParticipantContext& context,
                               const std::shared_ptr<PeerSession>& from, const link::Lent& lent,
                               memory::Grant grant, LentCallbacks callbacks) noexcept;

}  // namespace tensorbus::bus
