#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "tensorbus/link/lease/lease_source.hpp"
#include "tensorbus/link/ring/lease_index.hpp"
#include "tensorbus/link/wire/delayed_sender.hpp"

namespace tensorbus::link {

// The lender of one thing that was lent by message (LENT), or through a ring of a queue: its token
// goes back by message. With token 0, or a dead owner, nothing goes back.
class MessageLeaseSource final : public LeaseSource {
 public:
  MessageLeaseSource(std::shared_ptr<const Source> source, std::shared_ptr<PeerMemory> peer_memory,
                     memory::Grant grant, std::shared_ptr<LeaseIndex> lent, std::uint64_t token);

  // Lets the token go back a little later.
  void return_by(std::shared_ptr<DelayedSender> delayed) noexcept { delayed_ = std::move(delayed); }
  // Lets no lease be found before show(), since the token may be another process's.
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
  Channel::Prepared return_;                // prepared, because it must work without memory
  std::shared_ptr<DelayedSender> delayed_;  // null: it goes at once
  bool hidden_ = false;
};

}  // namespace tensorbus::link
