#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

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

// The same for an item that lies in host memory of this participant alone: a descriptor that needs
// no memory of its own. Nothing for other items, and if that has more than `most_bytes` bytes.
struct OwnOffer {
  std::vector<std::byte> descriptor;
  link::PublishedRef issued;
};
std::optional<OwnOffer> reoffer_own(ParticipantContext& context,
                                    const std::shared_ptr<const LentSample>& held,
                                    std::size_t most_bytes);

}  // namespace tensorbus::bus
