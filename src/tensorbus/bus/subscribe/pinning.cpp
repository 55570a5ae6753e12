#include "tensorbus/bus/subscribe/pinning.hpp"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "tensorbus/bus/subscribe/sample_data.hpp"
#include "tensorbus/device/memory/device_memory.hpp"

namespace tensorbus::bus {
namespace {

using device::PinnedBlocks;

// The range of a sample's bytes in each block of the sender, by segment and generation.
using Hulls = std::map<std::pair<memory::SegmentId, std::uint64_t>, memory::Range>;

Hulls hulls_of(const link::Lease& lease, const Id& sender) {
  Hulls hulls;
  for (const link::Place& place : lease.places()) {
    if (place.owner != sender || place.segment.kind() != memory::SegmentKind::kHost) continue;
    const memory::Range bytes{place.offset, place.offset + place.bytes};
    memory::Range& hull = hulls.try_emplace({place.segment, place.generation}, bytes).first->second;
    hull = {std::min(hull.begin, bytes.begin), std::max(hull.end, bytes.end)};
  }
  return hulls;
}

void ask(const link::BorrowerLink& link, const PinnedBlocks::Block& block) {
  constexpr auto kAsk = static_cast<std::uint32_t>(link::PinVerb::kAsk);
  link.channel().send(link::Pin{kAsk, block.segment, block.offset, block.generation});
}

}  // namespace

Pinning pin_blocks(link::BorrowerLink& link, const Sample& sample) {
  const auto lease = SampleData::lease_of(sample);
  if (!lease) return Pinning::kDone;
  std::vector<std::shared_ptr<const void>> uses;
  bool asked = false;
  bool half = false;
  for (const auto& [name, hull] : hulls_of(*lease, link.source()->participant)) {
    const PinnedBlocks::Block block{name.first, hull.begin, name.second};
    const PinnedBlocks::Wanted wanted{block, hull, link.find_segment(name.first)};
    if (!wanted.mapping) continue;  // a copy that came over another connection
    PinnedBlocks& pinned = *link.peer_memory()->pinned;
    PinnedBlocks::Found found = hull.bytes() < PinnedBlocks::least_bytes()
                                    ? PinnedBlocks::Found{pinned.leave(wanted)}
                                    : pinned.find(wanted);
    if (found.state == PinnedBlocks::State::kAsk) ask(link, block);
    asked = asked || found.state == PinnedBlocks::State::kAsk ||
            found.state == PinnedBlocks::State::kAsked;
    half = half || found.state == PinnedBlocks::State::kHalf;
    uses.push_back(std::move(found.use));
  }
  if (half) return Pinning::kHalf;
  if (asked) return Pinning::kAsked;
  for (const auto& use : uses)
    if (use) lease->keep(use);
  return Pinning::kDone;
}

}  // namespace tensorbus::bus
