#pragma once

#include <cstdint>
#include <memory>

#include "tensorbus/link/lease/lease_source.hpp"
#include "tensorbus/link/ring/lease_index.hpp"

namespace tensorbus::link {

// The lender of one thing that was lent by message (LENT): its token goes back by message. With
// token 0, or a dead owner, nothing goes back.
class MessageLeaseSource final : public LeaseSource {
 public:
  MessageLeaseSource(std::shared_ptr<const Source> source, std::shared_ptr<PeerMemory> peer_memory,
                     memory::Grant grant, std::shared_ptr<LeaseIndex> lent, std::uint64_t token);

  void enter(Lease& lease) override { lent_->add(lease); }
  void give_back(const Lease& lease, std::uint64_t mark) noexcept override {
    leave(lease);
    give_back(lease.token(), mark);
  }
  void leave(const Lease& lease) noexcept override { lent_->remove(lease); }
  void give_back(std::uint64_t token, std::uint64_t mark) noexcept override;

 private:
  const std::shared_ptr<LeaseIndex> lent_;
  Channel::Prepared return_;  // prepared, because it must work without memory
};

}  // namespace tensorbus::link
