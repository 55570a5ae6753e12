#include "tensorbus/link/ring/borrower_link.hpp"

#include <algorithm>
#include <utility>

#include "tensorbus/platform/kill_point.hpp"

namespace tensorbus::link {

BorrowerLink::BorrowerLink(std::uint32_t id, std::shared_ptr<const Source> source,
                           std::shared_ptr<PeerMemory> peer_memory, memory::Grant grant)
    : LeaseSource(std::move(source), std::move(peer_memory), grant),
      id_(id),
      unsubscribe_(Channel::prepare(Unsubscribe{id})),
      done_(Channel::prepare(Done{id})) {}

BorrowerLink::~BorrowerLink() {
  if (forked()) return;
  channel().send(std::move(done_));
  platform::kill_point("done.sent");
}

void BorrowerLink::accept(const Accepted& accepted, platform::Fd segment,
                          platform::Fd room_notifier) {
  if (segment_) throw Error(Code::kProtocol, "ACCEPTED.link: sent twice");
  if (!accepted.machine.empty()) set_origin({accepted.machine, accepted.publisher});
  if (accepted.max_held > kMaxHeld || accepted.max_held == 0)
    throw Error(Code::kProtocol, "ACCEPTED.max_held: " + std::to_string(accepted.max_held));
  const Geometry geometry{accepted.slots, accepted.returns};
  if (geometry.slots > kMaxDepth || geometry.returns > 2 * kMaxHeld)
    throw Error(Code::kProtocol, "ACCEPTED.slots: more than there can be");
  charge_ = peer_memory()->account.take(
      {.mappings = 1,
       .address_bytes = geometry.bytes(),
       .memory_bytes = geometry.bytes() + geometry.returns * sizeof(leases_[0])});
  publisher_ = Waker(peer_memory()->wake_page, accepted.wake_slot);
  if (room_notifier) set_room_notifier(std::move(room_notifier));
  // Allocated before the link is made: without memory for the leases, nothing is accepted.
  leases_ = std::vector<std::atomic<Lease*>>(geometry.returns);
  segment_.emplace(std::move(segment), geometry);
  segment_->close_descriptor();
  samples_ = SampleRingReader(segment_->slots());
  {
    const platform::MutexLock lock(release_mutex_);
    returns_ = ReturnRingWriter(segment_->return_tail(), segment_->returns());
  }
  max_held_ = accepted.max_held;
  publisher_waits_ = accepted.reliable != 0;
  next_sequence_ = first_sequence_ = accepted.next_sequence;
}

// If the budget has no room for the descriptor, the publisher checks for room from time to time.
void BorrowerLink::set_room_notifier(platform::Fd room_notifier) {
  try {
    room_notifier_charge_ = peer_memory()->account.take({.descriptors = 1});
    publisher_.set_notifier(std::move(room_notifier));
  } catch (const memory::PeerLimit&) {
  }
}

void BorrowerLink::unsubscribe() noexcept {
  if (std::exchange(unsubscribed_, true)) return;
  channel().send(std::move(unsubscribe_));
  platform::kill_point("unsubscribe.sent");
}

bool BorrowerLink::pop(Entry& entry) noexcept {
  if (!segment_) return false;
  // The owner also counts unreturned tokens, and never lends more than this link may hold.
  if (outstanding() >= max_held_) give_back_unused();
  if (!samples_.pop(entry)) return false;
  popped_.store(popped_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  return true;
}

void BorrowerLink::stop_here() noexcept {
  if (!segment_ || ended_ || std::exchange(stopped_, true)) return;
  if (const auto newest = samples_.stop_at_newest()) stopped_at_ = *newest + 1;
}

void BorrowerLink::release_soon(std::uint64_t token) noexcept {
  unused_[unused_count_++] = token;
  if (unused_count_ == unused_.size()) give_back_unused();
}

// These leases were never entered, so no thread can find them.
void BorrowerLink::give_back_unused() noexcept {
  if (unused_count_ == 0) return;
  const platform::MutexLock lock(release_mutex_);
  returns_.push(std::span(unused_).first(unused_count_));
  count_released(unused_count_);
  unused_count_ = 0;
  given_back_ = true;
}

BorrowerLink::Settled BorrowerLink::settle() noexcept {
  give_back_unused();
  const bool given_back = std::exchange(given_back_, false);
  to_settle = false;
  if (!publisher_waits_) return Settled::kNoWaiter;
  return given_back ? Settled::kGivenBack : Settled::kPopped;
}

bool BorrowerLink::ready() const noexcept {
  if (set_aside) return look_again;
  return segment_ && held() < max_held_ && samples_.ready();
}

void BorrowerLink::begin(std::uint64_t popped) noexcept {
  if (!segment_ || next_sequence_ != kNoSequence) return;
  // Acquire: pairs with OwnerLink::mark_begun(). If the word is 0, `first` is 2^64 - 1.
  const std::uint64_t first = segment_->first_sequence()->load(std::memory_order_acquire) - 1;
  first_sequence_ = std::min(first, popped);
  next_sequence_ = std::min(first_sequence_, follows_);
}

std::uint64_t BorrowerLink::follow(std::uint64_t next) noexcept {
  follows_ = next;
  if (next_sequence_ == kNoSequence) return 0;  // begin() counts from there
  if (next_sequence_ > first_sequence_) return first_sequence_ > next ? first_sequence_ - next : 0;
  next_sequence_ = std::min(first_sequence_, next);  // none received yet: counts from the first one
  return 0;
}

void BorrowerLink::enter(Lease& lease) {
  const auto index = static_cast<std::uint32_t>(lease.token());
  // Release: pairs with the load in find_lease(), which reads the places of the lease.
  if (index >= leases_.size()) return;
  leases_[index].store(&lease, std::memory_order_release);
  for (const Place& place : lease.places())
    if (place.owner != source()->participant) hands_on_.store(true, std::memory_order_relaxed);
}

std::optional<Leased> BorrowerLink::find_lease(const std::byte* first, std::size_t bytes) {
  if (!covers(first) && !hands_on_.load(std::memory_order_relaxed)) return std::nullopt;
  const platform::MutexLock lock(release_mutex_);
  for (const auto& held : leases_) {
    Lease* const lease = held.load(std::memory_order_acquire);
    if (lease == nullptr) continue;
    const auto place = lease->place_of(first, bytes);
    if (!place) continue;
    if (auto living = lease->weak_from_this().lock()) return Leased{std::move(living), *place};
  }
  return std::nullopt;
}

void BorrowerLink::leave(const Lease& lease) noexcept {
  const auto index = static_cast<std::uint32_t>(lease.token());
  if (index >= leases_.size()) return;
  const platform::MutexLock lock(release_mutex_);
  leases_[index].store(nullptr, std::memory_order_relaxed);
}

void BorrowerLink::give_back(std::uint64_t token, std::uint64_t mark) noexcept {
  {
    const platform::MutexLock lock(release_mutex_);
    const auto index = static_cast<std::uint32_t>(token);
    if (index < leases_.size()) leases_[index].store(nullptr, std::memory_order_relaxed);
    if (peer_memory()->returns_at_the_end.load(std::memory_order_relaxed)) return;
    returns_.push(token, mark);
    count_released(1);
  }
  if (!publisher_waits_) return;
  // Pairs with Sleeper::enter(): the publisher sees the returned token, or this thread sees that
  // the publisher sleeps.
  full_fence();
  wake_publisher();
}

}  // namespace tensorbus::link
