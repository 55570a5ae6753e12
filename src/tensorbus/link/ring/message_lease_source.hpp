#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "tensorbus/link/lease/lease_source.hpp"
#include "tensorbus/link/ring/lease_index.hpp"
#include "tensorbus/link/wire/delayed_sender.hpp"

namespace tensorbus::link {

// The lender of one object that was lent by message (LENT) or through a ring of a queue. Its token
// is returned by message; nothing is returned for token 0 or to a dead owner.
class MessageLeaseSource final : public LeaseSource {
 public:
  MessageLeaseSource(std::shared_ptr<const Source> source, std::shared_ptr<PeerMemory> peer_memory,
                     memory::Grant grant, std::shared_ptr<LeaseIndex> lent, std::uint64_t token);

  // Allows the token to be returned a little later.
  void return_by(std::shared_ptr<DelayedSender> delayed) noexcept { delayed_ = std::move(delayed); }
  // Leases cannot be found until show(), because another process may still take the token's item.
  void hide() noexcept { hidden_ = true; }
  void show() noexcept { hidden_ = false; }

  void enter(Lease& lease) override {
    if (!hidden_) lent_->add(lease);
  }
  void give_back(const Lease& lease, std::uint64_t mark) noexcept override {
    leave(lease);
    give_back(lease.token(), mark);
  }
  void leave(const Lease& lease) noexcept override { lent_->remove(lease); }
  void give_back(std::uint64_t token, std::uint64_t mark) noexcept override;

 private:
  const std::shared_ptr<LeaseIndex> lent_;
  Channel::Prepared return_;                // prepared: the return must work without memory
  std::shared_ptr<DelayedSender> delayed_;  // null: the token is returned at once
  bool hidden_ = false;
};

}  // namespace tensorbus::link
