#pragma once

#include <memory>

#include "tensorbus/bus/service.hpp"
#include "tensorbus/link/lender.hpp"

namespace tensorbus::bus {

// A peer that lent us memory of a GPU has hung up. When its process is dead, its streams signal no
// more, and ours stop waiting for them (Timeline::peer_died). A process that dies closes its socket
// before the driver has ended its work, so it is the pidfd that tells; without one, the socket has
// to do. On the service thread.
void release_when_dead(Service& service, const std::shared_ptr<link::Connected>& peer,
                       const platform::Fd& pidfd);

}  // namespace tensorbus::bus
