#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tensorbus/values/id.hpp>
#include <tensorbus/values/inspected.hpp>
#include <vector>

#include "tensorbus/link/lease/published_sample.hpp"
#include "tensorbus/link/ring/lease_table.hpp"
#include "tensorbus/link/ring/link_segment.hpp"
#include "tensorbus/link/ring/segment_sender.hpp"
#include "tensorbus/link/wake/wake.hpp"
#include "tensorbus/platform/clock.hpp"

namespace tensorbus::link {

struct LinkLimits {
  std::uint32_t depth = 0;     // in the ring
  std::uint32_t max_held = 0;  // popped and not returned
};

// Samples that a link did not get, or that were taken out of its ring again.
struct Drops {
  std::uint64_t depth = 0;   // taken out of a full ring for a newer one
  std::uint64_t held = 0;    // not pushed: the borrower holds as many as it may
  std::uint64_t unsent = 0;  // not pushed: no descriptor or memory for sending it
  std::uint64_t all() const noexcept { return depth + held + unsent; }
};

// The owner's description of a borrower.
struct Borrower {
  memory::Grant grant = memory::Grant::kRead;  // for the samples
  bool reliable = false;                       // publish() waits until the link has room
  std::uint32_t pid = 0;                       // in the pid namespace of this process
  Id participant{};                            // for inspections, like `node`
  std::string node{};
};

// The samples of a link that the borrower holds.
struct HeldSamples {
  std::uint32_t leases = 0;
  std::uint64_t bytes = 0;
  std::uint64_t oldest_published_ns = 0;  // since 1970; 0 without a lease
};
// Returns the time since the oldest sample was published; 0 without a lease.
std::chrono::nanoseconds age_of(const HeldSamples& held, std::uint64_t wall_ns) noexcept;

// The owner's end of a link: sends samples, takes returned leases back, and has private records of
// both. Not thread-safe: guarded by the publisher's mutex.
class OwnerLink {
 public:
  OwnerLink(LinkLimits limits, Waker subscriber, std::shared_ptr<SegmentSender> segments,
            Borrower borrower = {});

  // Returns the cost of a link for its owner: its rings and their records.
  static memory::PeerCost cost_of(LinkLimits limits) noexcept;

  const LinkSegment& segment() const noexcept { return segment_; }
  LinkLimits limits() const noexcept { return limits_; }
  const Borrower& borrower() const noexcept { return borrower_; }
  Waker& subscriber() noexcept { return subscriber_; }
  // Wakes the subscriber. Called after a push and a full fence.
  void wake_subscriber() noexcept {
    subscriber_.wake_if_sleeping([this] { return is_half_full(); });
  }

  enum class Room { kYes, kRingFull, kAllHeld };
  Room room();
  // Returns how many samples can be pushed now, at most `most`.
  std::uint32_t room_for(std::uint32_t most);
  using Clock = platform::Clock;
  // Records that publish() waits for room here. The first call after a push() sets the time.
  void mark_blocked(Clock::time_point now) noexcept {
    if (!blocked_since()) blocked_ = {now, next_};
  }
  // Returns the time at which publish() began to wait for room here; empty after a push().
  std::optional<Clock::time_point> blocked_since() const noexcept {
    if (!blocked_ || blocked_->position != next_) return std::nullopt;
    return blocked_->since;
  }
  // Takes the oldest samples back until there is room; returns their number. Ends without room only
  // if the borrower holds as many as it may.
  std::uint32_t drop_until_room();
  // Count a sample that the link did not get: the borrower holds as many as it may, or sending
  // failed.
  void count_dropped_held() noexcept { ++dropped_.held; }
  void count_dropped_unsent() noexcept { ++dropped_.unsent; }
  // Returns the drops since the last call.
  Drops take_drops() noexcept {
    const Drops before = std::exchange(dropped_and_taken_, dropped_);
    return {dropped_.depth - before.depth, dropped_.held - before.held,
            dropped_.unsent - before.unsent};
  }

  // Does the part of the next push() that can fail: sends the borrower the segments of the sample,
  // and the mark at which it is complete. Throws Error or std::bad_alloc.
  void prepare(const PublishedRef& sample, const device::GpuStream* writer = nullptr);
  // Pushes a sample; there must be room. Sets this link's token and mark in the entry. Does not
  // wake the subscriber. Throws like prepare() and then changes nothing; after prepare() it does
  // not throw. `writer`: see SegmentSender::mark_for().
  void push(Entry& entry, PublishedRef sample, const device::GpuStream* writer = nullptr);
  // Pushes another message that lies in the host memory of the last one. push() has set the entry's
  // mark.
  void push_another(Entry& entry, PublishedRef sample) noexcept;

  // Takes back the leases that the borrower returned. Returns false if its return ring is invalid:
  // the link stays broken, and its samples come back when it ends.
  [[nodiscard]] bool drain();
  bool broken() const noexcept { return broken_; }
  // Returns true if draining is likely to free memory or many leases. Draining takes a cache line
  // away from the borrower. So for samples that lie in their entries, half of all leases must be
  // outstanding.
  bool worth_draining() const noexcept {
    return with_memory_ != 0 || 2 * outstanding() >= leases_.capacity();
  }
  // Takes back all samples that the borrower has not popped.
  void recall() noexcept;
  // Calls recall(), and marks the link: its borrower has blocked publish() for too long.
  void cut_off() noexcept {
    cut_off_ = true;
    recall();
  }
  bool is_cut_off() const noexcept { return cut_off_; }
  // Shows the borrower that the publisher has closed, and how many samples it has published: the
  // stream ends with those in the ring. Release: after the samples; pairs with
  // BorrowerLink::publisher_closed().
  void mark_closed(std::uint64_t samples) noexcept {
    segment_.publisher_closed()->store(samples + 1, std::memory_order_release);
  }
  // Shows the borrower the first sequence number of a mirror that begins now. Release: pairs with
  // BorrowerLink::begin(). The first push follows.
  void mark_begun(std::uint64_t first) noexcept {
    segment_.first_sequence()->store(first + 1, std::memory_order_release);
  }
  // Takes everything back when the borrower is gone. Nothing may be pushed afterwards.
  void take_all_back() noexcept;

  std::uint32_t outstanding() const noexcept { return leases_.outstanding(); }
  HeldSamples held_samples() const noexcept;
  // `wall_ns`: platform::wall_clock_ns().
  LinkReport report(std::uint64_t wall_ns);
  // Returns the sample lent with this token, or null.
  PublishedRef issued(std::uint64_t token) const noexcept {
    const PublishedRef* const found = leases_.find(token);
    return found != nullptr ? *found : nullptr;
  }
  // Returns true if returned leases wait for a stream of the borrower.
  bool awaits_streams() const noexcept { return !returning_.empty(); }
  std::uint64_t bad_returns() const noexcept { return bad_returns_; }
  void close_descriptor() noexcept { segment_.close_descriptor(); }

  // Notified by the borrower when there may be room, if the publisher is polled. Closed when the
  // publisher drops the link.
  platform::Fd room_listener;

 private:
  void pass_segments(const PublishedRef& sample);
  void take_back(std::uint64_t token) noexcept;
  void return_when_reached(std::uint64_t token, std::uint64_t mark) noexcept;
  std::uint32_t in_ring() noexcept;
  bool drop_oldest() noexcept;
  // Returns true if at least half of the samples that fit wait in the ring.
  bool is_half_full() const noexcept {
    const std::uint64_t half = std::max(limits_.depth / 2, 1U);
    return next_ >= half && !samples_.is_taken(next_ - half);
  }
  std::uint64_t& token_at(std::uint64_t position) noexcept {
    return tokens_[position & (tokens_.size() - 1)];
  }

  LinkLimits limits_;
  LinkSegment segment_;
  SampleRingWriter samples_;
  ReturnRingReader returns_;
  LeaseTable<PublishedRef> leases_;
  std::uint32_t with_memory_ = 0;  // number of leases of samples outside their entries
  struct Returning {
    std::uint64_t token = 0;
    std::uint64_t mark = 0;
  };
  std::vector<Returning> returning_;  // has capacity for all leases once one is on a device
  std::optional<device::Mark> prepared_;
  std::vector<std::uint64_t> tokens_;  // by slot: the token of the sample in it
  std::uint64_t next_ = 0;             // the position of the next push
  std::uint64_t oldest_ = 0;           // no position before this one is full
  std::uint64_t bad_returns_ = 0;
  Drops dropped_;
  Drops dropped_and_taken_;  // already returned by take_drops()
  bool broken_ = false;
  bool cut_off_ = false;
  struct Blocked {
    Clock::time_point since;
    std::uint64_t position = 0;  // of the next push at that time; only a push takes room away
  };
  std::optional<Blocked> blocked_;
  memory::SegmentId last_segment_ = memory::SegmentId::none();  // the last segment that was sent
  Waker subscriber_;
  std::shared_ptr<SegmentSender> segments_;
  const Borrower borrower_;
};

}  // namespace tensorbus::link
