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

// The borrower's end of a link. pop() and the state are under the subscriber's mutex; release() may
// be called in any thread. The last reference (subscriber or lease) gone tells the owner DONE.
class BorrowerLink : public LeaseSource {
 public:
  // `grant`: the access that is asked for.
  BorrowerLink(std::uint32_t id, std::shared_ptr<const Source> source,
               std::shared_ptr<PeerMemory> peer_memory, memory::Grant grant = memory::Grant::kRead);
  ~BorrowerLink() override;

  std::uint32_t id() const noexcept { return id_; }
  Channel& channel() const noexcept { return *peer_memory()->channel; }

  // Called when ACCEPTED came, with the notifier of a publisher that is polled. Throws
  // Error(kProtocol), memory::PeerLimit.
  void accept(const Accepted& accepted, platform::Fd segment, platform::Fd room_notifier = {});
  bool accepted() const noexcept { return segment_.has_value(); }
  // Called when nothing new will come: after ENDED, or the owner's death.
  void end() noexcept {
    begin(kNoSequence);
    ended_ = look_again = true;
    samples_.skip_dropped();
  }
  bool ended() const noexcept { return ended_; }
  // Of a link that has ended: whether its publisher closed in an orderly way. Acquire: pairs with
  // OwnerLink::mark_closed().
  bool publisher_closed() const noexcept {
    return segment_ && segment_->publisher_closed()->load(std::memory_order_acquire) != 0;
  }

  // Takes the next sample whose memory is mapped here; the caller releases its lease. If the owner
  // waits, it may sleep until settle().
  [[nodiscard]] bool pop(Entry& entry) noexcept;
  // Returns the lease of a popped sample that is not used, at settle() at the latest. Under the
  // subscriber's mutex, like settle().
  void release_soon(std::uint64_t token) noexcept;
  // Returns the tokens of release_soon(). Afterwards wake_publisher() is due, if the publisher may
  // sleep until a return or a pop(); after kGivenBack, one full fence comes first.
  enum class Settled { kNobodyWaits, kPopped, kGivenBack };
  [[nodiscard]] Settled settle() noexcept;
  void wake_publisher() noexcept { publisher_.wake_if_sleeping(); }
  // Returns true if pop() would find something that may be popped now, or if the set-aside entry
  // may be readable now.
  bool ready() const noexcept;
  // Returns true if the owner wrote something invalid to the ring: the ring is not used any more.
  bool broken() const noexcept { return samples_.broken(); }
  // Returns true if the owner has not answered SUBSCRIBE yet: it may count on this link already.
  bool is_asked() const noexcept { return !segment_ && !ended_; }
  // Returns true if nothing is left here or in the ring.
  bool empty() const noexcept { return !set_aside && !(segment_ && samples_.ready()); }
  // Of a mirror that had not begun when the link was accepted: looks at its first sequence number.
  // `popped`: a sample of the ring; kNoSequence: none was popped.
  void begin(std::uint64_t popped) noexcept;
  // The link takes the place of an ended link to a mirror of the same publisher; `next` is that
  // link's next_sequence(). Returns the samples between both that were not counted before.
  std::uint64_t follow(std::uint64_t next) noexcept;
  // Counts the samples that are missing between the last one and this one.
  std::uint64_t gap_before(std::uint64_t sequence) noexcept;
  // From now on only samples that are in the ring are popped. Does nothing if the link has ended.
  void stop_here() noexcept;
  bool stopped() const noexcept { return stopped_; }
  // After stop_here(): the samples before it that were not popped; 0 if this was called before.
  std::uint64_t take_missed_before_stop() noexcept {
    const std::uint64_t end = std::exchange(stopped_at_, 0);
    return end > next_sequence_ ? end - next_sequence_ : 0;
  }
  // Of a link whose publisher has closed: the samples that were published after the last one.
  std::uint64_t missed_at_the_end() const noexcept {
    const std::uint64_t samples = segment_->publisher_closed()->load(std::memory_order_relaxed) - 1;
    return samples > next_sequence_ ? samples - next_sequence_ : 0;
  }
  // Returns the sequence number after that of the last sample; kNoSequence if the link leads to a
  // mirror that has not begun.
  std::uint64_t next_sequence() const noexcept { return next_sequence_; }

  void release(std::uint64_t token) noexcept { give_back(token, 0); }
  void enter(Lease& lease) override;
  void give_back(const Lease& lease, std::uint64_t mark) noexcept override {
    give_back(lease.token(), mark);
  }
  void leave(const Lease& lease) noexcept override;
  void give_back(std::uint64_t token, std::uint64_t mark) noexcept override;
  // Returns the lease of these bytes, if it is one of this link.
  std::optional<Leased> find_lease(const std::byte* first, std::size_t bytes);
  // Tells the owner that nothing new is wanted. Called once.
  void unsubscribe() noexcept;
  // Under the subscriber's mutex.
  std::uint32_t held() const noexcept { return outstanding() - unused_count_; }
  // Counts like the owner: tokens on their way back included. In any thread: a sample is popped
  // before it is released, so what is read first must be released_. Acquire: pairs with
  // count_released().
  std::uint32_t outstanding() const noexcept {
    const std::uint32_t released = released_.load(std::memory_order_acquire);
    return popped_.load(std::memory_order_relaxed) - released;
  }
  // Returns true if samples are waiting, but the borrower holds as many as it may.
  bool at_hold_limit() const noexcept {
    return segment_ && held() >= max_held_ && !set_aside && samples_.ready();
  }

  // The owner notifies it for threads that poll. Closed when the subscriber drops the link.
  platform::Fd notifier;
  memory::PeerCharge notifier_charge;

  // A popped entry that cannot be read yet, with its lease: its segment has not arrived, or there
  // was no room to map it.
  std::optional<Entry> set_aside;
  // Something has changed since then, so the entry may be readable now.
  bool look_again = false;
  // The ring was broken, and this was counted.
  bool broken_counted = false;
  // The owner ended the link because we blocked it for too long, and can be asked again.
  bool cut_off_by_owner = false;
  bool replaced = false;  // it was broken off, and another link has taken its place
  // The subscriber will call settle(). Under its mutex.
  bool to_settle = false;

 private:
  void give_back_unused() noexcept;
  // Release: who reads this count also reads in popped_ that these samples were popped.
  void count_released(std::uint32_t tokens) noexcept TB_REQUIRES(release_mutex_) {
    released_.store(released_.load(std::memory_order_relaxed) + tokens, std::memory_order_release);
  }
  void set_room_notifier(platform::Fd room_notifier);

  const std::uint32_t id_;
  // Prepared, because the link's end must work without memory.
  Channel::Prepared unsubscribe_;
  Channel::Prepared done_;
  memory::PeerCharge charge_;
  memory::PeerCharge room_notifier_charge_;
  std::optional<LinkSegment> segment_;
  SampleRingReader samples_;
  std::uint64_t next_sequence_ = 0;
  std::uint64_t first_sequence_ = kNoSequence;  // the first that the owner has given this link
  std::uint64_t follows_ = kNoSequence;         // see follow()
  std::uint32_t max_held_ = 0;
  bool publisher_waits_ = false;  // it is reliable: it may sleep until we pop or release
  bool ended_ = false;
  bool stopped_ = false;
  std::uint64_t stopped_at_ = 0;  // the sequence number behind the last that is popped
  bool unsubscribed_ = false;
  Waker publisher_;
  std::atomic<std::uint32_t> popped_{0};  // written under the subscriber's mutex
  // Under the subscriber's mutex: tokens that release_soon() was told of.
  std::array<std::uint64_t, 32> unused_;
  std::uint32_t unused_count_ = 0;
  bool given_back_ = false;  // of them, since settle()
  platform::Mutex release_mutex_;
  std::atomic<std::uint32_t> released_{0};  // written under release_mutex_
  ReturnRingWriter returns_ TB_GUARDED_BY(release_mutex_);
  // By the index in their tokens. One is written by whoever has that lease, and read and cleared
  // under release_mutex_, which a lease that ends waits for.
  std::vector<std::atomic<Lease*>> leases_;
  std::atomic<bool> hands_on_{false};  // its leases may lie in memory of other owners
};

}  // namespace tensorbus::link
