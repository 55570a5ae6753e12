#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "tensorbus/link/lease/published_sample.hpp"
#include "tensorbus/link/ring/lease_table.hpp"
#include "tensorbus/link/ring/link_segment.hpp"
#include "tensorbus/link/ring/segment_sender.hpp"
#include "tensorbus/link/wake/wake.hpp"

namespace tensorbus::link {

struct LinkLimits {
  std::uint32_t depth = 0;     // samples in the ring
  std::uint32_t max_held = 0;  // samples popped and not returned
};

// The owner's end of a link: what goes out, what comes back, and the private records about it.
// Not thread-safe: under the publisher's mutex.
class OwnerLink {
 public:
  // `grant`: what the subscriber may do with what is pushed.
  OwnerLink(LinkLimits limits, Waker subscriber, std::shared_ptr<SegmentSender> segments,
            memory::Grant grant = memory::Grant::kRead);

  // What a link takes of its owner: its rings, and the bookkeeping of them.
  static memory::PeerCost cost_of(LinkLimits limits) noexcept;

  const LinkSegment& segment() const noexcept { return segment_; }
  LinkLimits limits() const noexcept { return limits_; }
  Waker& subscriber() noexcept { return subscriber_; }

  enum class Room { kYes, kRingFull, kAllHeld };
  Room room();
  // Takes the oldest samples back until there is room; returns how many. Ends without room only
  // when the borrower holds all that it may.
  std::uint32_t drop_until_room();

  // What of the next push() can fail: sees to it that the borrower gets the segments that the
  // sample lies in, and is told when it is whole. Throws Error or std::bad_alloc.
  void prepare(const PublishedRef& sample, const platform::GpuStream* writer = nullptr);
  // There must be room. Gives the entry this link's token and mark. Does not wake the subscriber.
  // Throws the same, and leaves everything as it was; not after prepare(). `writer`: see
  // SegmentSender::mark_for().
  void push(Entry& entry, PublishedRef sample, const platform::GpuStream* writer = nullptr);

  // Takes back what the borrower returned. False if its return ring makes no sense: then the link
  // is broken for good, and what it has out comes back at its end.
  [[nodiscard]] bool drain();
  bool broken() const noexcept { return broken_; }
  // Is it worth a look whether something came back? For memory always; for leases of samples that
  // lay in their entries when half of all are out: a look takes the borrower's cache line away.
  bool worth_draining() const noexcept {
    return with_memory_ != 0 || 2 * outstanding() >= leases_.capacity();
  }
  // Takes back everything that the borrower has not popped.
  void recall() noexcept;
  // The borrower is gone: everything comes back. Nothing may be pushed afterwards.
  void take_all_back() noexcept;

  std::uint32_t outstanding() const noexcept { return leases_.outstanding(); }
  // What is out under this token; null if nothing is.
  PublishedRef issued(std::uint64_t token) const noexcept {
    const PublishedRef* const found = leases_.find(token);
    return found != nullptr ? *found : nullptr;
  }
  // Are there leases that are on their way back, behind a stream of the borrower's?
  bool awaits_streams() const noexcept { return !returning_.empty(); }
  std::uint64_t bad_returns() const noexcept { return bad_returns_; }
  void close_descriptor() noexcept { segment_.close_descriptor(); }

 private:
  void pass_segments(const PublishedRef& sample);
  void take_back(std::uint64_t token) noexcept;
  void return_when_reached(std::uint64_t token, std::uint64_t mark) noexcept;
  std::uint32_t in_ring() noexcept;
  bool drop_oldest() noexcept;
  std::uint64_t& token_at(std::uint64_t position) noexcept {
    return tokens_[position & (tokens_.size() - 1)];
  }

  LinkLimits limits_;
  LinkSegment segment_;
  SampleRingWriter samples_;
  ReturnRingReader returns_;
  LeaseTable<PublishedRef> leases_;
  std::uint32_t with_memory_ = 0;  // of them
  struct Returning {
    std::uint64_t token = 0;
    std::uint64_t mark = 0;
  };
  std::vector<Returning> returning_;  // has room for all leases once one is on a device
  std::optional<memory::Mark> prepared_;
  std::vector<std::uint64_t> tokens_;  // by slot: the lease that lies there
  std::uint64_t next_ = 0;             // position of the next push
  std::uint64_t oldest_ = 0;           // no position before this one is full
  std::uint64_t bad_returns_ = 0;
  bool broken_ = false;
  memory::SegmentId last_segment_ = memory::SegmentId::none();  // the one we know was sent
  Waker subscriber_;
  std::shared_ptr<SegmentSender> segments_;
  memory::Grant grant_;
};

}  // namespace tensorbus::link
