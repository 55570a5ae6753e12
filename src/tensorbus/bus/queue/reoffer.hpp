#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "tensorbus/bus/session/lent_sample.hpp"
#include "tensorbus/link/lease/published_sample.hpp"
#include "tensorbus/link/ring/sample_ring.hpp"

namespace tensorbus::bus {

// A held sample that is prepared to be lent to another process. `entry` refers to the memory of
// each tensor as its owner does. The tensors are neither read nor copied; `issued` keeps their
// memory.
struct Reoffer {
  link::Entry entry;
  link::PublishedRef issued;
};
// Makes a Reoffer. On the event loop only. Throws Error(kClosed) if a block of this participant is
// gone, Error(kOutOfMemory).
Reoffer reoffer(ParticipantContext& context, const std::shared_ptr<const LentSample>& held,
                memory::Grant grant);

// Makes an offer of an item whose tensors lie only in host memory of this participant. Allocates no
// block for the descriptor. Returns an empty value for other items, or if the descriptor exceeds
// `max_bytes`.
struct OwnOffer {
  std::vector<std::byte> descriptor;
  link::PublishedRef issued;
};
std::optional<OwnOffer> reoffer_own(ParticipantContext& context,
                                    const std::shared_ptr<const LentSample>& held,
                                    std::size_t max_bytes);

}  // namespace tensorbus::bus
