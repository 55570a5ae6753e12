#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "tensorbus/bus/session/acquired_leases.hpp"
#include "tensorbus/bus/session/peer_session.hpp"
#include "tensorbus/tensor/descriptor.hpp"

namespace tensorbus::bus {

// Gets leases, of those who own them, on the blocks of one sample that its sender hands on
// (docs/protocol.md, section 6). On the event loop.
class LeaseAcquisition : public std::enable_shared_from_this<LeaseAcquisition> {
 public:
  using OnClaimed = std::function<void(std::variant<AcquiredLeases, Error>)>;

  // Who has lent the sample, and under which name: of a link, or of none by message.
  struct Sender {
    std::shared_ptr<PeerSession> session;  // null: it is gone
    std::uint32_t link = 0;
    std::uint64_t token = 0;
  };

  // Throws nothing but std::bad_alloc; `on_claimed` is called once, perhaps before this returns.
  // The sender is asked for what owners that are dead have left.
  static void start(ParticipantContext& context, const Descriptor& descriptor, Sender sender,
                    memory::Grant grant, OnClaimed on_claimed);

 private:
  struct Share {  // what one owner has of the sample
    Id owner;
    std::set<link::BlockName> blocks;
    std::shared_ptr<link::PeerMemory> peer_memory;
    bool on_device = false;  // some of it
    int tries = 0;           // to claim them
    bool failing = false;    // the last one did; there will be another
  };

  LeaseAcquisition(ParticipantContext& context, Sender sender, memory::Grant grant,
                   OnClaimed on_claimed)
      : context_(context),
        sender_(std::move(sender)),
        grant_(grant),
        on_claimed_(std::move(on_claimed)) {}

  void claim(std::size_t owner);
  void claim_again(std::size_t owner);
  void ask(std::size_t owner, const std::shared_ptr<PeerSession>& session);
  void inherit(std::size_t owner);
  void inherit_segment(std::size_t owner, memory::SegmentId segment);
  void take_over(std::size_t owner, memory::SegmentId segment, memory::SharedSegment& handed);
  std::shared_ptr<link::PeerMemory> orphaned_memory_with(
      std::size_t owner, const std::set<memory::SegmentId>& segments);
  void add_lease(std::size_t owner, const std::shared_ptr<link::PeerMemory>& peer_memory,
                 const link::Lent& lent);
  void one_done();
  void fail(const Error& error);
  // Has `work` done, whatever it meets is how the claiming ends.
  template <typename Work>
  void guarded(Work work);

  ParticipantContext& context_;
  const Sender sender_;
  const memory::Grant grant_;
  OnClaimed on_claimed_;  // empty: it was called
  std::vector<Share> shares_;
  AcquiredLeases claimed_;
  std::size_t waiting_for_ = 0;
};

}  // namespace tensorbus::bus
