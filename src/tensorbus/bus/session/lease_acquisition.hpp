#pragma once

#include <chrono>
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

// Acquires leases from the owners of the blocks that the sender of one sample passes on
// (docs/internals/protocol.md, section 6). Exists until the last reply. On the event loop only.
class LeaseAcquisition : public std::enable_shared_from_this<LeaseAcquisition> {
 public:
  using OnAcquired = std::function<void(std::variant<AcquiredLeases, Error>)>;

  // The peer that lent the sample, and the lease on the sample. `link` is 0 if it was lent by
  // message.
  struct LentBy {
    std::shared_ptr<PeerSession> session;  // null: the peer is gone
    std::uint32_t link = 0;
    std::uint64_t token = 0;
  };

  // Sends the requests; requests the memory of dead owners from the sender. Calls `on_acquired`
  // once, perhaps before this returns. Throws nothing but std::bad_alloc.
  static void start(ParticipantContext& context, const tensor::Descriptor& descriptor,
                    LentBy lent_by, memory::Grant grant, OnAcquired on_acquired);

 private:
  struct Share {  // one owner's part of the sample
    Id owner;
    std::set<link::BlockName> blocks;
    std::shared_ptr<link::PeerMemory> peer_memory;
    bool on_device = false;  // part of it lies on a device
    int tries = 0;           // attempts that ended with the connection
    bool failing = false;    // the last try failed, and another is scheduled
  };

  LeaseAcquisition(ParticipantContext& context, LentBy lent_by, memory::Grant grant,
                   OnAcquired on_acquired)
      : context_(context),
        lent_by_(std::move(lent_by)),
        grant_(grant),
        on_acquired_(std::move(on_acquired)) {}

  void acquire(std::size_t owner);
  void acquire_again(std::size_t owner, const Error& why);
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
  // Calls `work`. If it throws, the acquisition ends with an Error.
  template <typename Work>
  void guarded(Work work);

  ParticipantContext& context_;
  const LentBy lent_by_;
  const memory::Grant grant_;
  OnAcquired on_acquired_;  // empty after the call
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  std::vector<Share> shares_;
  AcquiredLeases acquired_;
  std::size_t waiting_for_ = 0;
};

}  // namespace tensorbus::bus
