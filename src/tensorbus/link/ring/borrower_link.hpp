#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "tensorbus/link/lease/lease.hpp"
#include "tensorbus/link/lease/lease_source.hpp"
#include "tensorbus/link/ring/link_segment.hpp"
#include "tensorbus/link/wake/wake.hpp"
#include "tensorbus/link/wire/channel.hpp"
#include "tensorbus/link/wire/connection_messages.hpp"
#include "tensorbus/platform/mutex.hpp"

namespace tensorbus::link {

// The borrower's end of a link. pop() and the state are guarded by the subscriber's mutex;
// release() may be called in any thread. The last reference (of subscriber or lease) sends DONE.
class BorrowerLink : public LeaseSource {
 public:
  // `grant`: the requested access.
  BorrowerLink(std::uint32_t id, std::shared_ptr<const Source> source,
               std::shared_ptr<PeerMemory> peer_memory, memory::Grant grant = memory::Grant::kRead);
  ~BorrowerLink() override;

  std::uint32_t id() const noexcept { return id_; }
  Channel& channel() const noexcept { return *peer_memory()->channel; }

  // Called for ACCEPTED, with the notifier of a publisher that is polled. Throws Error(kProtocol)
  // or memory::PeerLimit.
  void accept(const Accepted& accepted, platform::Fd segment, platform::Fd room_notifier = {});
  bool accepted() const noexcept { return segment_.has_value(); }
  // Called after ENDED or the owner's death: nothing new will arrive.
  void end() noexcept {
    begin(kNoSequence);
    ended_ = look_again = true;
    samples_.skip_dropped();
  }
  bool ended() const noexcept { return ended_; }
  // Returns true if the publisher of an ended link closed in an orderly way. Acquire: pairs with
  // OwnerLink::mark_closed().
  bool publisher_closed() const noexcept {
    return segment_ && segment_->publisher_closed()->load(std::memory_order_acquire) != 0;
  }

  // Takes the next sample whose memory is mapped here; the caller releases its lease. If the owner
  // waits, it may sleep until settle().
  [[nodiscard]] bool pop(Entry& entry) noexcept;
  // Returns the lease of an unused popped sample, at settle() at the latest. Called with the
  // subscriber's mutex held, like settle().
  void release_soon(std::uint64_t token) noexcept;
  // Returns the tokens of release_soon(). Except after kNoWaiter, wake_publisher() must follow:
  // the publisher may sleep until a return or a pop(). After kGivenBack, one full fence comes
  // first.
  enum class Settled { kNoWaiter, kPopped, kGivenBack };
  [[nodiscard]] Settled settle() noexcept;
  void wake_publisher() noexcept { publisher_.wake_if_sleeping(); }
  // Returns true if pop() would find a sample that may be popped now, or if the set-aside entry may
  // be readable now.
  bool ready() const noexcept;
  // Returns true if the owner wrote invalid data to the ring. The ring is then not used any more.
  bool broken() const noexcept { return samples_.broken(); }
  // Returns true if the owner has not replied to SUBSCRIBE yet. It may already use this link.
  bool is_requested() const noexcept { return !segment_ && !ended_; }
  // Returns true if no sample is left here or in the ring.
  bool empty() const noexcept { return !set_aside && !(segment_ && samples_.ready()); }
  // For a mirror that had not begun when the link was accepted: reads its first sequence number.
  // `popped`: the sequence number of a sample of the ring; kNoSequence if none was popped.
  void begin(std::uint64_t popped) noexcept;
  // Makes the link replace an ended link to a mirror of the same publisher; `next` is that link's
  // next_sequence(). Returns the number of uncounted samples between both.
  std::uint64_t follow(std::uint64_t next) noexcept;
  // `sequence`: the number of the sample that was received last.
  void set_last(std::uint64_t sequence) noexcept { next_sequence_ = sequence + 1; }
  // Afterwards, pop() takes only samples that are already in the ring. Does nothing if the link has
  // ended.
  void stop_here() noexcept;
  bool stopped() const noexcept { return stopped_; }
  // After stop_here(): returns the number of earlier samples that were not popped; then 0.
  std::uint64_t take_missed_before_stop() noexcept {
    const std::uint64_t end = std::exchange(stopped_at_, 0);
    return end > next_sequence_ ? end - next_sequence_ : 0;
  }
  // Returns how many samples a closed publisher published after the last one received.
  std::uint64_t missed_at_the_end() const noexcept {
    const std::uint64_t samples = segment_->publisher_closed()->load(std::memory_order_relaxed) - 1;
    return samples > next_sequence_ ? samples - next_sequence_ : 0;
  }
  // Returns the sequence number after that of the last sample; kNoSequence for a mirror that has
  // not begun.
  std::uint64_t next_sequence() const noexcept { return next_sequence_; }

  void release(std::uint64_t token) noexcept { give_back(token, 0); }
  void enter(Lease& lease) override;
  void give_back(const Lease& lease, std::uint64_t mark) noexcept override {
    give_back(lease.token(), mark);
  }
  void leave(const Lease& lease) noexcept override;
  void give_back(std::uint64_t token, std::uint64_t mark) noexcept override;
  // Returns the lease of these bytes if this link has one.
  std::optional<Leased> find_lease(const std::byte* first, std::size_t bytes);
  // Notifies the owner that no new samples are wanted. Called once.
  void unsubscribe() noexcept;
  // Called with the subscriber's mutex held.
  std::uint32_t held() const noexcept { return outstanding() - unused_count_; }
  // Returns the number of popped samples whose tokens were not returned, as the owner counts them.
  // In any thread: a sample is popped before it is released, so released_ must be read first.
  // Acquire: pairs with count_released().
  std::uint32_t outstanding() const noexcept {
    const std::uint32_t released = released_.load(std::memory_order_acquire);
    return popped_.load(std::memory_order_relaxed) - released;
  }
  // Returns true if samples wait although the borrower holds as many as it may.
  bool at_hold_limit() const noexcept {
    return segment_ && held() >= max_held_ && !set_aside && samples_.ready();
  }

  // Notified by the owner for threads that poll. Closed when the subscriber drops the link.
  platform::Fd notifier;
  memory::PeerCharge notifier_charge;

  // A popped entry that cannot be read yet, with its lease: its segment has not arrived, or could
  // not be mapped.
  std::optional<Entry> set_aside;
  // Set by a change after which the set-aside entry may be readable.
  bool look_again = false;
  // Set when the broken ring was counted.
  bool broken_counted = false;
  // The owner ended the link because this subscriber blocked it for too long. The subscriber may
  // subscribe again.
  bool cut_off_by_owner = false;
  bool replaced = false;  // broken off, and replaced by another link
  // The subscriber will call settle(). Guarded by its mutex.
  bool to_settle = false;

 private:
  void give_back_unused() noexcept;
  // Release: a thread that reads this count also reads in popped_ that these samples were popped.
  void count_released(std::uint32_t tokens) noexcept TB_REQUIRES(release_mutex_) {
    released_.store(released_.load(std::memory_order_relaxed) + tokens, std::memory_order_release);
  }
  void set_room_notifier(platform::Fd room_notifier);

  const std::uint32_t id_;
  // Prepared, because ending the link must work without memory.
  Channel::Prepared unsubscribe_;
  Channel::Prepared done_;
  memory::PeerCharge charge_;
  memory::PeerCharge room_notifier_charge_;
  std::optional<LinkSegment> segment_;
  SampleRingReader samples_;
  std::uint64_t next_sequence_ = 0;
  std::uint64_t first_sequence_ = kNoSequence;  // the first that the owner sent on this link
  std::uint64_t follows_ = kNoSequence;         // see follow()
  std::uint32_t max_held_ = 0;
  bool publisher_waits_ = false;  // a reliable publisher may sleep until a pop or a release
  bool ended_ = false;
  bool stopped_ = false;
  std::uint64_t stopped_at_ = 0;  // the sequence number after the last one to pop
  bool unsubscribed_ = false;
  Waker publisher_;
  std::atomic<std::uint32_t> popped_{0};  // written with the subscriber's mutex held
  // Tokens of release_soon(), guarded by the subscriber's mutex.
  std::array<std::uint64_t, 32> unused_;
  std::uint32_t unused_count_ = 0;
  bool given_back_ = false;  // tokens were returned since settle()
  platform::Mutex release_mutex_;
  std::atomic<std::uint32_t> released_{0};  // written with release_mutex_ held
  ReturnRingWriter returns_ TB_GUARDED_BY(release_mutex_);
  // By the index in the token. An element is written by the holder of that lease, and read and
  // cleared with release_mutex_ held; a lease that ends waits for that mutex.
  std::vector<std::atomic<Lease*>> leases_;
  std::atomic<bool> hands_on_{false};  // leases may be of other owners' memory
};

}  // namespace tensorbus::link
