#include "tensorbus/bus/queue/get_ring.hpp"

#include "tensorbus/platform/error.hpp"

namespace tensorbus::bus {

PeerSession::JoinedRing GetRing::join(const Client& client) {
  for (const auto& [taker, known] : takers_)
    if (known == client) return {segment_->descriptor(), taker, leases_begin_};
  if (next_taker_ == link::GetRingTaker::kMaxTakers)
    throw Error(Code::kUnsupported, "this queue has had the maximum number of getters with a ring");
  if (!segment_) {
    auto segment = std::make_unique<link::GetRingSegment>();
    leases_.resize(link::GetRingSegment::kSlots);
    writer_.emplace(*segment);
    segment_ = std::move(segment);
  }
  PeerSession::JoinedRing joined{segment_->descriptor(), next_taker_, leases_begin_};
  takers_.emplace(next_taker_, client);
  ++next_taker_;
  return joined;
}

void GetRing::leave(const Client& client) noexcept {
  std::erase_if(takers_, [&](const auto& known) { return known.second == client; });
}

}  // namespace tensorbus::bus
