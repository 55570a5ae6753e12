#pragma once

#include <span>

#include "tensorbus/bus/session/participant_context.hpp"
#include "tensorbus/link/lease/published_sample.hpp"
#include "tensorbus/link/wire/lease_messages.hpp"

namespace tensorbus::bus {

// Returns an object that keeps the blocks and files of this participant that a peer has named, for
// a lease on them. Throws Error(kClosed) if one is gone, Error(kPermission) if one may not be lent
// with this grant.
link::PublishedRef own_memory(const ParticipantContext& context,
                              std::span<const link::BlockName> names, memory::Grant grant);

}  // namespace tensorbus::bus
