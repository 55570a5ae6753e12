#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "tensorbus/bus/session/peer_session.hpp"
#include "tensorbus/link/ring/get_ring.hpp"
#include "tensorbus/platform/leak.hpp"

namespace tensorbus::bus {

// The server's end of the get ring of one queue: items that getters in other processes may take
// without a request (docs/internals/protocol.md, section 7, "The get ring"). On the event loop
// only.
class GetRing {
 public:
  using Client = std::shared_ptr<PeerSession>;

  // `leases`: the first of 2^40 tokens that are used for no other lease of this participant.
  explicit GetRing(std::uint64_t leases) : leases_begin_(leases) {}

  // Returns true if no client takes items this way.
  bool empty() const noexcept { return takers_.empty(); }
  // Adds a client, which may then take items. Throws Error(kOutOfMemory), Error(kUnsupported).
  PeerSession::JoinedRing join(const Client& client);
  // Removes a client that is gone. Called after collect(), which reports the items that it took.
  void leave(const Client& client) noexcept;

  // The lease on an item with tensors, for the process that takes the item. `issued` is null for an
  // item without tensors.
  struct Lease {
    std::uint64_t token = 0;
    link::PublishedRef issued;
  };

  bool has_room() const noexcept { return writer_->lent() < most_; }
  void lend(std::span<const std::byte> bytes, std::uint64_t number,
            link::PublishedRef issued) noexcept {
    const std::uint64_t position = writer_->lend(bytes, number, issued != nullptr);
    lease_at(position) = {leases_begin_ + position, std::move(issued)};
  }
  // Calls taken(client, lease) for each item taken since the last call, in order. `client` is null
  // if the taker is unknown.
  template <typename Taken>
  void collect(const Taken& taken) {
    if (!writer_) return;
    for (; writer_->lent() != 0; writer_->pop()) {
      const std::uint32_t taker = writer_->taker();
      if (taker == link::GetRingTaker::kFree) return;
      count(taker, taken);
    }
  }
  // Takes back all items that no getter has taken, and calls `taken` for the taken items.
  template <typename Taken>
  void take_back(const Taken& taken) {
    if (!writer_ || writer_->lent() == 0) return;
    writer_->take_back([&](std::uint32_t taker) { count(taker, taken); });
    std::ranges::fill(leases_, Lease{});
    most_ = std::max<std::uint64_t>(most_ / 2, 1);
  }
  // Takes back the oldest item. Returns false if no item is lent, or a getter has taken it.
  bool take_back_first() noexcept {
    if (!writer_ || writer_->lent() == 0) return false;
    const std::uint64_t first = writer_->first();
    if (!writer_->take_back_first()) return false;
    lease_at(first) = {};
    return true;
  }
  // A getter wakes the server when `left` items remain; empty: never. Notifies getters whether
  // `more` items wait. Returns true if there are taken items to collect already.
  bool wake_when_left(std::optional<std::uint64_t> left, bool more) noexcept {
    writer_->set_more(more);
    writer_->wake_when_left(left);
    return writer_->lent() != 0 && writer_->taker() != link::GetRingTaker::kFree;
  }
  // Returns half the number of items that may be lent at a time.
  std::uint64_t half() const noexcept { return most_ / 2; }
  void woken() noexcept {
    if (writer_) writer_->woken();
  }

 private:
  template <typename Taken>
  void count(std::uint32_t taker, const Taken& taken) {
    const auto client = takers_.find(taker);
    Lease lease = std::exchange(lease_at(writer_->first()), {});
    if (client == takers_.end()) keep(std::move(lease.issued));
    taken(client == takers_.end() ? nullptr : client->second, std::move(lease));
    most_ = std::min<std::uint64_t>(most_ + 2, link::GetRingSegment::kSlots);
  }

  // Keeps the memory: another getter may have overwritten the number of the getter that reads the
  // item.
  void keep(link::PublishedRef issued) noexcept {
    try {
      if (issued) kept_.push_back(issued);
    } catch (const std::bad_alloc&) {
      platform::leak(std::move(issued));
    }
  }
  Lease& lease_at(std::uint64_t position) noexcept { return leases_[position % leases_.size()]; }

  std::unique_ptr<link::GetRingSegment> segment_;
  const std::uint64_t leases_begin_;
  std::vector<Lease> leases_;  // one for each slot
  std::vector<link::PublishedRef> kept_;
  std::optional<link::GetRingWriter> writer_;
  std::map<std::uint32_t, Client> takers_;
  std::uint32_t next_taker_ = link::GetRingTaker::kFirstGetter;
  // Maximum number of items lent at a time: rises when items are taken, falls when they are taken
  // back.
  std::uint64_t most_ = link::GetRingSegment::kSlots;
};

}  // namespace tensorbus::bus
