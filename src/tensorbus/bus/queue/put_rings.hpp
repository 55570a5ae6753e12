#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "tensorbus/bus/session/peer_session.hpp"
#include "tensorbus/link/ring/message_lease_source.hpp"
#include "tensorbus/link/ring/put_ring.hpp"
#include "tensorbus/memory/peer_budget.hpp"
#include "tensorbus/platform/clock.hpp"

namespace tensorbus::bus {

// Returns the time of the clock that orders the entries of several rings.
inline std::uint64_t put_clock_ns() noexcept {
  return static_cast<std::uint64_t>(platform::Clock::now().time_since_epoch().count());
}

// The server's ends of the rings through which clients put items into one queue
// (docs/internals/protocol.md, section 7). On the event loop only.
class PutRings {
 public:
  using Client = std::shared_ptr<PeerSession>;
  using Lender = std::shared_ptr<link::MessageLeaseSource>;  // for items without a lease
  static constexpr std::size_t kMax = 64;  // per queue: each message checks all rings
  static constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();

  bool empty() const noexcept { return rings_.empty(); }
  // Throws Error(kProtocol), Error(kOutOfMemory).
  void add(const Client& client, Lender lender, platform::Fd memory);

  // Calls enter(client, lender, slot) for each entry, in the order of the puts, and then removes
  // the entry. Entries put during the call may stay for the next pull(). If `enter` throws, its
  // entry stays.
  template <typename Enter>
  void pull(Enter enter);
  // Returns true if there are entries to pull.
  bool any_waits() noexcept;
  // Returns the number of entries for which room is promised and that were not pulled yet.
  std::size_t promised() const noexcept;
  // Takes all room back: entries already put stay, and no more can be put before promise().
  void take_back() noexcept;
  // Promises room for at most `room` more items, divided among the rings. A ring gets no promise
  // while its part is too small. `most`: the maxsize of the queue, 0 for no limit.
  void promise(std::size_t room, std::size_t most) noexcept;
  // Sets whether clients wake the server for their next entry. Returns true if entries wait
  // already.
  bool wait(bool waits) noexcept;
  // Returns the rings on which a thread of this process may sleep after wait(true). Empty unless
  // the last item came through a ring: the next item may come by message, for which the event
  // loop's own thread would have to wake this thread.
  std::vector<std::shared_ptr<link::PutRingSegment>> to_sleep_on() const;
  // Called for an item that came into the queue by message.
  void passed_by() noexcept { came_last_ = false; }
  // Ends the ring of a client that is gone. Its entries stay until they are pulled.
  void end(const Client& client) noexcept;

 private:
  struct Ring {
    Client client;
    Lender lender;
    std::shared_ptr<link::PutRingSegment> segment;
    link::PutRingReader reader;
    memory::PeerCharge charge;
    std::uint32_t known = 0;  // entries that the last pull() left
    std::uint32_t now = 0;    // entries that the current pull() has found
    bool ended = false;
  };
  static constexpr std::uint32_t kChunk = 16;

  Ring* oldest(std::uint64_t before) noexcept;
  void drop_ended() noexcept;

  std::vector<Ring> rings_;
  bool came_last_ = false;  // the last item came through a ring
};

// An entry of another ring may have been put before an entry that is read here, and be seen only
// later. So entries that were put after the start of this call are left for the next call. `known`:
// no entry is left twice, whatever its time is.
template <typename Enter>
void PutRings::pull(Enter enter) {
  if (rings_.empty()) return;
  const std::uint64_t before = rings_.size() == 1 ? 0 : put_clock_ns();
  std::uint32_t any = 0;
  for (Ring& ring : rings_) any += ring.now = ring.reader.waiting();
  while (any != 0) {
    Ring* const next = rings_.size() == 1 ? rings_.data() : oldest(before);
    if (next == nullptr || next->now == 0) break;
    enter(next->client, next->lender, next->reader.at(0));
    came_last_ = true;
    next->reader.pop();
    --next->now;
    if (next->known != 0) --next->known;
  }
  for (Ring& ring : rings_) ring.known = ring.now;
  drop_ended();
}

}  // namespace tensorbus::bus
