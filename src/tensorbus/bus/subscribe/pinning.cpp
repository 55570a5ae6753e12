#include "tensorbus/bus/subscribe/pinning.hpp"

#include <algorithm>
#include <exception>
#include <map>
#include <tuple>
#include <utility>

#include "tensorbus/bus/subscribe/sample_data.hpp"
#include "tensorbus/device/gpu_pin.hpp"
#include "tensorbus/link/wire/memory_messages.hpp"

namespace tensorbus::bus {
namespace {

using device::PinnedBlocks;

struct Name {
  link::PeerMemory* memory;  // of the owner
  memory::Grant grant;
  memory::SegmentId segment;
  std::uint64_t generation;
  auto operator<=>(const Name&) const = default;
};
// The range of a sample's bytes in each block.
using Hulls = std::map<Name, memory::Range>;

// Without a channel, the owner has ended: it cannot grant a pin.
Hulls hulls_of(const link::Lease& lease, const link::PeerMemory* only) {
  Hulls hulls;
  for (const link::Place& place : lease.places()) {
    if (place.segment.kind() != memory::SegmentKind::kHost || !place.memory->channel ||
        (only != nullptr && place.memory != only))
      continue;
    const memory::Range bytes{place.offset, place.offset + place.bytes};
    const Name name{place.memory, place.grant, place.segment, place.generation};
    memory::Range& hull = hulls.try_emplace(name, bytes).first->second;
    hull = {std::min(hull.begin, bytes.begin), std::max(hull.end, bytes.end)};
  }
  return hulls;
}

void ask(const link::PeerMemory& owner, const PinnedBlocks::Block& block) {
  constexpr auto kAsk = static_cast<std::uint32_t>(link::PinVerb::kAsk);
  try {
    owner.channel->send(link::Pin{kAsk, block.segment, block.offset, block.generation});
  } catch (...) {
    owner.pinned->not_asked(block);
    throw;
  }
}

}  // namespace

void Pinning::require(Access access) {
  if (access == Access::kPrivate)
    throw Error(Code::kInvalidArgument,
                "pin: with access private each sample has pages of its own; use read or shared");
  if (possible_.load(std::memory_order_relaxed)) return;
  device::require_pinning();
  possible_.store(true, std::memory_order_relaxed);
}

std::vector<Pinning::Awaited> Pinning::pin(Sample& sample, const link::PeerMemory* only) noexcept {
  try {
    return pin_blocks(sample, only);
  } catch (const std::exception&) {
    return {};
  }
}

std::vector<Pinning::Awaited> Pinning::pin_blocks(Sample& sample, const link::PeerMemory* only) {
  const auto lease = SampleData::lease_of(sample);
  if (!lease) return {};
  std::vector<Awaited> awaited;
  try {
    return pin_blocks(sample, *lease, only, awaited);
  } catch (...) {
    withdraw(awaited);
    throw;
  }
}

// Adds the requests to `awaited`, also before it throws.
std::vector<Pinning::Awaited> Pinning::pin_blocks(Sample& sample, link::Lease& lease,
                                                  const link::PeerMemory* only,
                                                  std::vector<Awaited>& awaited) {
  std::vector<std::shared_ptr<const void>> uses;
  bool half = false;
  const Hulls hulls = hulls_of(lease, only);
  awaited.reserve(hulls.size());
  uses.reserve(hulls.size());
  for (const auto& [name, hull] : hulls) {
    const PinnedBlocks::Block block{name.segment, hull.begin, name.generation};
    const PinnedBlocks::Wanted wanted{block, hull,
                                      name.memory->segments_for(name.grant).find(name.segment)};
    if (!wanted.mapping) continue;
    const auto blocks = subscribed(name.memory->pinned);
    PinnedBlocks::Found found = hull.bytes() < PinnedBlocks::least_bytes()
                                    ? PinnedBlocks::Found{blocks->leave(wanted)}
                                    : blocks->find(wanted);
    if (found.state == PinnedBlocks::State::kAsk) ask(*name.memory, block);
    if (found.state == PinnedBlocks::State::kAsk || found.state == PinnedBlocks::State::kAsked)
      awaited.push_back({blocks, block});  // room is reserved
    half = half || found.state == PinnedBlocks::State::kHalf;
    uses.push_back(std::move(found.use));
  }
  if (half) {
    withdraw(awaited);
    sample = sample.copy();
    return {};
  }
  if (awaited.empty())
    for (const auto& use : uses)
      if (use) lease.keep(use);
  return std::move(awaited);
}

void Pinning::withdraw(std::span<const Awaited> awaited) noexcept {
  for (const Awaited& one : awaited) one.blocks->withdraw(one.block);
}

// Subscribes before the first request: without a subscriber, a grant is returned at once.
std::shared_ptr<PinnedBlocks> Pinning::subscribed(const std::shared_ptr<PinnedBlocks>& blocks) {
  const platform::MutexLock lock(mutex_);
  const auto is_this = [&](const std::weak_ptr<PinnedBlocks>& known) {
    return !known.owner_before(blocks) && !blocks.owner_before(known);
  };
  if (std::ranges::any_of(owners_, is_this)) return blocks;
  std::erase_if(owners_, [](const auto& known) { return known.expired(); });
  owners_.push_back(blocks);
  blocks->subscribe();
  return blocks;
}

void Pinning::close() noexcept {
  std::vector<std::weak_ptr<PinnedBlocks>> owners;
  {
    const platform::MutexLock lock(mutex_);
    owners.swap(owners_);
  }
  for (const auto& one : owners)
    if (const auto blocks = one.lock()) blocks->unsubscribe();
}

}  // namespace tensorbus::bus
