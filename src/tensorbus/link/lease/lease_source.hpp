#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <tensorbus/values/id.hpp>

#include "tensorbus/device/memory/imported_memory.hpp"
#include "tensorbus/device/transfer/pinned_blocks.hpp"
#include "tensorbus/link/lease/mirror_origin.hpp"
#include "tensorbus/link/wake/wake.hpp"
#include "tensorbus/link/wire/channel.hpp"
#include "tensorbus/memory/host/borrowed_segments.hpp"
#include "tensorbus/platform/fork/inherited.hpp"
#include "tensorbus/platform/fork_guard.hpp"

namespace tensorbus::link {

class Lease;

// The publisher whose samples are lent.
struct Source {
  Id participant;
  std::uint32_t publisher = 0;
  std::string topic;
  std::shared_ptr<const MirrorOrigin> origin{};  // of a mirror
};

// The connection to one owner, and this process's mappings of the owner's memory. Leases keep it
// alive: while a lease is held, the socket stays open, and the owner keeps the lease valid.
struct PeerMemory {
  std::shared_ptr<Channel> channel;  // null: the owner has ended; a peer passed its memory on
  memory::BorrowedSegments segments{memory::Grant::kRead};
  memory::BorrowedSegments writable_segments{memory::Grant::kWrite};
  device::ImportedMemory imported;
  std::shared_ptr<device::PinnedBlocks> pinned = std::make_shared<device::PinnedBlocks>();
  PeerWakePage wake_page;
  std::shared_ptr<const platform::Fd> pidfd;  // null: the peer has none, or before its HELLO
  bool of_this_process = false;  // the owner is this process: its arena keeps blocks for children
  // Set when this participant ends, while rings of queues may have entries that name the owner's
  // memory. Tokens are then not returned through return rings, which the owner may read before it
  // reads the entries: DONE returns them. Relaxed: the entries' leases are dropped afterwards.
  std::atomic<bool> returns_at_the_end{false};

  memory::PeerAccount account;    // is charged for the resources that the owner's messages take
  memory::PeerCharge connection;  // for the socket, the pidfd and the wake page

  void pay_from(const memory::PeerAccount& payer) {
    account = payer;
    segments.pay_from(payer);
    writable_segments.pay_from(payer);
    imported.pay_from(payer);
  }
  // Returns true if this connection shows that the owner has hung up or ended.
  bool is_over() const noexcept;
  // As is_over(), but returns false without a system call while the owner is alive, even if it has
  // hung up. For cases in which the owner signals its hang-up in another way.
  bool has_died() const noexcept;
  memory::BorrowedSegments& segments_for(memory::Grant grant) noexcept {
    return grant == memory::Grant::kWrite ? writable_segments : segments;
  }
};

// The lender of leases: finds its mapped segments, and returns leases to it. Leases share it.
class LeaseSource {
 public:
  // `grant`: the access to the lent memory.
  LeaseSource(std::shared_ptr<const Source> source, std::shared_ptr<PeerMemory> peer_memory,
              memory::Grant grant)
      : source_(std::move(source)),
        peer_memory_(std::move(peer_memory)),
        grant_(grant),
        segments_(peer_memory_->segments_for(grant)) {}
  virtual ~LeaseSource() = default;
  LeaseSource(const LeaseSource&) = delete;
  LeaseSource& operator=(const LeaseSource&) = delete;

  const std::shared_ptr<const Source>& source() const noexcept { return source_; }
  const std::shared_ptr<PeerMemory>& peer_memory() const noexcept { return peer_memory_; }
  memory::Grant grant() const noexcept { return grant_; }
  // Returns true in a child of the process to which the memory was lent.
  bool forked() const noexcept { return fork_generation_ != platform::fork_generation(); }

  // Called by one thread at a time. Returns or throws as BorrowedSegments::find() does.
  const memory::BorrowedSegments::Ref& find_segment(memory::SegmentId id) {
    return last_segment_.find(segments_, id);
  }
  // As find_segment(), for any number of threads.
  memory::BorrowedSegments::Ref find_shared_segment(memory::SegmentId id) const {
    return segments_.find(id);
  }
  // Maps bytes of a segment again; see BorrowedSegments::map_own().
  memory::BorrowedSegments::Ref map_own(memory::SegmentId id, memory::Range range) const {
    return segments_.map_own(id, range);
  }
  device::ImportedMemory::Ref find_device_memory(memory::SegmentId id) {
    return peer_memory_->imported.find(id, grant_);
  }
  // Returns false if find_device_memory() found that this process cannot use it.
  bool is_usable(memory::SegmentId device_segment) const noexcept {
    return peer_memory_->imported.is_usable(device_segment, grant_);
  }
  bool covers(const std::byte* address) const {
    return segments_.covers(address) || peer_memory_->imported.covers(address);
  }

  // Records the lease, so that it is found by the addresses of its places.
  virtual void enter(Lease& lease) = 0;
  // Called when the last reference to the lease is gone, in any thread; the lease can no longer be
  // found. Returns its token with a mark, reached when the streams that use it have finished.
  virtual void give_back(const Lease& lease, std::uint64_t mark) noexcept = 0;
  // give_back() in two steps, for a token that is returned later than the lease ends.
  virtual void leave(const Lease& lease) noexcept = 0;
  virtual void give_back(std::uint64_t token, std::uint64_t mark) noexcept = 0;

 protected:
  // Marks the publisher as a mirror. Called before the first lease.
  void set_origin(MirrorOrigin origin) {
    Source mirror = *source_;
    mirror.origin = std::make_shared<const MirrorOrigin>(std::move(origin));
    source_ = std::make_shared<const Source>(std::move(mirror));
  }

 private:
  const std::uint32_t fork_generation_ = platform::fork_generation();
  const platform::Inheritable inheritable_{platform::Inheritable::Of::kOthers};
  std::shared_ptr<const Source> source_;  // constant once a lease exists
  const std::shared_ptr<PeerMemory> peer_memory_;
  const memory::Grant grant_;
  const memory::BorrowedSegments& segments_;  // those of the peer memory for the grant
  memory::LastSegment last_segment_;
};

}  // namespace tensorbus::link
