#pragma once

#include <functional>

#include "tensorbus/bus/session/lent_sample.hpp"

namespace tensorbus::bus {

// Who gets what a peer lends: one of the two is called, once.
struct Receiver {
  std::function<void(LentRef)> on_held;
  std::function<void(const Error&)> on_error;
};

// Holds what `from` has lent, with leases of those who own what it hands on. On the event loop,
// which reads none of it. Throws nothing: whatever goes wrong is the receiver's to hear, and the
// lease goes back.
void collect(ParticipantContext& context, const std::shared_ptr<PeerSession>& from,
             const link::Lent& lent, memory::Grant grant, Receiver receiver) noexcept;

}  // namespace tensorbus::bus
