#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "tensorbus/link/lease/lease.hpp"
#include "tensorbus/link/lease/lease_source.hpp"
#include "tensorbus/link/ring/link_segment.hpp"
#include "tensorbus/link/wake/wake.hpp"
#include "tensorbus/link/wire/channel.hpp"
#include "tensorbus/link/wire/connection_messages.hpp"

namespace tensorbus::link {

// The borrower's end of a link. pop() and the state are under the subscriber's mutex; release() is
// for any thread. The last reference (subscriber or lease) gone tells the owner DONE.
class BorrowerLink : public LeaseSource {
 public:
  // `grant`: what is asked for.
  BorrowerLink(std::uint32_t id, std::shared_ptr<const Source> source,
               std::shared_ptr<PeerMemory> connected, memory::Grant grant = memory::Grant::kRead);
  ~BorrowerLink() override;

  std::uint32_t id() const noexcept { return id_; }
  Channel& channel() const noexcept { return *connected()->channel; }

  // ACCEPTED came. Throws Error(kProtocol), memory::PeerLimit.
  void accept(const Accepted& accepted, platform::Fd segment);
  bool accepted() const noexcept { return segment_.has_value(); }
  // Nothing new will come: ENDED, or the owner's death.
  void end() noexcept { ended_ = look_again = true; }
  bool ended() const noexcept { return ended_; }

  // The next sample whose memory is mapped here; its lease is the caller's to release. The owner
  // may sleep until settle(), if it waits.
  [[nodiscard]] bool pop(Entry& entry) noexcept;
  // The lease of a sample that was popped and of which nothing is used goes back, with settle() at
  // the latest. Under the subscriber's mutex, as settle() is.
  void release_soon(std::uint64_t token) noexcept;
  // Gives back what release_soon() was told of. Then wake_publisher(), if the publisher may sleep
  // until it hears of that or of a pop(); first one full fence if something was given back.
  enum class Settled { kNobodyWaits, kPopped, kGivenBack };
  [[nodiscard]] Settled settle() noexcept;
  void wake_publisher() noexcept { publisher_.wake_if_sleeping(); }
  // Would pop() find something that may be popped now, or may what was set aside be readable?
  bool ready() const noexcept;
  // The owner wrote to the ring what no owner writes: nothing of it can be used any more.
  bool broken() const noexcept { return samples_.broken(); }
  // Neither here nor in the ring is anything left.
  bool empty() const noexcept { return !set_aside && !(segment_ && samples_.ready()); }
  // Counts the samples that never came between the last one and this one.
  std::uint64_t gap_before(std::uint64_t sequence) noexcept;

  void release(std::uint64_t token) noexcept { give_back(token, 0); }
  void enter(Lease& lease) override;
  void give_back(const Lease& lease, std::uint64_t mark) noexcept override {
    give_back(lease.token(), mark);
  }
  void leave(const Lease& lease) noexcept override;
  void give_back(std::uint64_t token, std::uint64_t mark) noexcept override;
  // The lease of these bytes, if it is one of this link.
  std::optional<Leased> find_lease(const std::byte* first, std::size_t bytes);
  // Tells the owner that nothing new is wanted. Once.
  void unsubscribe() noexcept;
  // Relaxed: a count; what it bounds is ordered by the rings.
  std::uint32_t held() const noexcept { return outstanding() - unused_count_; }
  // There is something, but the borrower holds all that it may.
  bool at_hold_limit() const noexcept {
    return segment_ && held() >= max_held_ && !set_aside && samples_.ready();
  }

  // Where the owner rings for those who poll; closed when the subscriber lets the link go.
  platform::Fd notifier;
  memory::PeerCharge notifier_charge;

  // An entry that was popped and cannot be read yet waits here, with its lease: its segment has not
  // arrived, or there was no room to map it.
  std::optional<Entry> set_aside;
  // Since then something changed, so that it may be readable now.
  bool look_again = false;
  // It was broken, and that was counted.
  bool cut_off = false;
  // The subscriber will settle(). Under its mutex.
  bool to_settle = false;

 private:
  // As the owner counts.
  std::uint32_t outstanding() const noexcept {
    return popped_.load(std::memory_order_relaxed) - released_.load(std::memory_order_relaxed);
  }
  void give_back_unused() noexcept;

  const std::uint32_t id_;
  // Said when the link goes, which has to work without memory.
  Channel::Prepared unsubscribe_;
  Channel::Prepared done_;
  memory::PeerCharge charge_;
  std::optional<LinkSegment> segment_;
  SampleRingReader samples_;
  std::uint64_t next_sequence_ = 0;
  std::uint32_t max_held_ = 0;
  bool publisher_waits_ = false;  // it is reliable: it may sleep until we pop or release
  bool ended_ = false;
  bool unsubscribed_ = false;
  Waker publisher_;
  std::atomic<std::uint32_t> popped_{0};  // written under the subscriber's mutex
  // Under the subscriber's mutex: tokens that release_soon() was told of.
  std::array<std::uint64_t, 32> unused_;
  std::uint32_t unused_count_ = 0;
  bool given_back_ = false;  // of them, since settle()
  std::mutex release_mutex_;
  std::atomic<std::uint32_t> released_{0};  // written under release_mutex_
  ReturnRingWriter returns_;
  // By the index in their tokens. One is written by whoever has that lease, and read and cleared
  // under release_mutex_, which a lease that ends waits for.
  std::vector<std::atomic<Lease*>> leases_;
  std::atomic<bool> hands_on_{false};  // leases of it may lie in others' memory
};

}  // namespace tensorbus::link
