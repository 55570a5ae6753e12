#pragma once

// An explicit-state model of the rings of producers (docs/internals/protocol.md, section 7).
// Producers and the server take the steps that other processes can see, one at a time, in every
// order. A producer may stop or die between any two steps: it then takes no more steps. The server
// pulls, decides, promises room and goes to sleep as QueueServer does. At any moment, a getter
// begins to wait, a client requests room by message, and the queue is shut down.

#include <algorithm>
#include <array>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/model/put_ring_model_state.hpp"

namespace tensorbus::link::testing {

class PutRingModel {
 public:
  explicit PutRingModel(PutRingSizes sizes, PutRingMistake mistake = PutRingMistake::kNone)
      : sizes_(sizes), mistake_(mistake) {}

  // Explores every state that can be reached. Returns the first broken invariant, or "".
  std::string explore() {
    State first;
    first.touched = true;  // a ring was offered: room is promised
    enter(std::move(first));
    while (!todo_.empty() && violation_.empty()) {
      const State state = todo_.back();
      todo_.pop_back();
      moved_ = false;
      for (int p = 0; p < sizes_.producers; ++p) producer(state, p);
      server(state);
      if (!moved_) at_rest(state);  // before other clients take steps
      others(state);
      for (int p = 0; p < sizes_.producers; ++p) die(state, p);
    }
    return violation_;
  }
  std::size_t states() const { return seen_.size(); }
  std::size_t ends() const { return ends_; }

 private:
  using At = ProducerAt;
  using Server = RingServerAt;
  using Byte = std::int8_t;
  using Ring = ModelRing;
  using State = PutRingState;

  // --- A producer: begins (and reads the clock), writes, puts, and wakes the server. ---

  void producer(const State& from, int p) {
    const auto i = static_cast<std::size_t>(p);
    const Ring& self = from.rings[i];
    if (self.at >= At::kDead) return;
    State s = from;
    Ring& me = s.rings[i];
    switch (self.at) {
      case At::kIdle:
        if (me.begun == sizes_.puts || me.room.left() == 0) break;
        me.stamps[static_cast<std::size_t>(me.begun)] = s.clock++;
        me.after[static_cast<std::size_t>(me.begun)] = static_cast<Byte>(s.done.size());
        me.at = At::kBegun;
        enter(std::move(s));
        break;
      case At::kBegun:
        expect(static_cast<int>(me.room.tail) - me.head < sizes_.slots,
               "a slot is written that the server may read");
        me.read = me.room;
        me.at = At::kWritten;
        enter(std::move(s));
        break;
      case At::kWritten:
        if (mistake_ == PutRingMistake::kStoreOfTheTail) me.room = me.read;
        if (me.room.left() == 0) {  // no room any more: sends a request, or gives up
          me.at = At::kIdle;
          me.begun = static_cast<Byte>(sizes_.puts);
        } else {
          ++me.room.tail;
          expect(!s.closed, "an item is put after the end");
          me.at = At::kPut;
        }
        enter(std::move(s));
        break;
      case At::kPut:
        me.at = me.waits != 0 ? At::kWakes : At::kIdle;
        if (me.at == At::kIdle) returns(s, p);
        enter(std::move(s));
        break;
      case At::kWakes:
        if (std::exchange(me.waits, Byte{0}) != 0) me.wakes = true;
        me.at = At::kIdle;
        returns(s, p);
        enter(std::move(s));
        break;
      default:
        break;
    }
  }
  void die(const State& from, int p) {
    const auto i = static_cast<std::size_t>(p);
    if (from.rings[i].at == At::kDead) return;
    State s = from;
    s.rings[i].at = At::kDead;
    enter(std::move(s));
  }
  static void returns(State& s, int p) {
    Ring& me = s.rings[static_cast<std::size_t>(p)];
    s.done.emplace_back(static_cast<Byte>(p), me.begun++);
  }

  // --- Messages of other clients, which the server handles when it is awake. ---

  void others(const State& from) {
    if (!from.came) {
      State s = from;
      s.came = s.getter = s.touched = true;
      enter(std::move(s));
    }
    if (sizes_.asks && !from.asked) {
      State s = from;
      s.asked = s.touched = true;
      enter(std::move(s));
    }
    if (sizes_.shuts_down && !from.over) {
      State s = from;
      s.over = s.touched = true;
      enter(std::move(s));
    }
  }

  // --- The server. ---

  void server(const State& from) {
    if (from.at == Server::kAsleep) return wake(from);
    State s = from;
    Ring& ring = s.rings[static_cast<std::size_t>(s.ring)];
    switch (from.at) {
      case Server::kPull:
      case Server::kPullAgain:
      case Server::kPullLast:
        ring.now = static_cast<Byte>(ring.room.tail - static_cast<std::uint32_t>(ring.head));
        if (!next_ring(s)) pulled(s);
        break;
      case Server::kTakeBack:
        ring.limit = static_cast<Byte>(ring.room.tail);
        ring.room.limit = ring.room.tail;
        if (!next_ring(s)) begin_pull(s, Server::kPullAgain);
        break;
      case Server::kPromise:
        if (!ring.dropped && !s.closed) promise(s, ring);
        if (!next_ring(s)) s.at = Server::kSetWaits;
        break;
      case Server::kSetWaits:
        if (ring.armed != s.getter) ring.waits = s.getter ? 1 : 0;
        ring.armed = s.getter;
        if (!next_ring(s))
          s.at = s.getter && mistake_ != PutRingMistake::kSleepsWithoutLook ? Server::kLook
                                                                            : Server::kAsleep;
        break;
      case Server::kLook:
        if (static_cast<int>(ring.room.tail) != ring.head)
          begin_pull(s, Server::kPull);
        else if (!next_ring(s))
          s.at = Server::kAsleep;
        break;
      default:
        break;
    }
    enter(std::move(s));
  }

  void wake(const State& from) {
    if (from.touched) {
      State s = from;
      s.touched = false;
      begin_pull(s, Server::kPull);
      enter(std::move(s));
    }
    for (std::size_t i = 0; i < from.rings.size(); ++i) {
      const Ring& ring = from.rings[i];
      if (ring.wakes) {
        State s = from;
        s.rings[i].wakes = false;
        s.rings[i].armed = false;
        begin_pull(s, Server::kPull);
        enter(std::move(s));
      } else if (ring.at == At::kDead && !ring.dropped) {
        State s = from;
        Ring& dead = s.rings[i];
        dead.dropped = true;
        dead.limit = static_cast<Byte>(dead.room.tail);
        dead.room.limit = dead.room.tail;
        if (mistake_ == PutRingMistake::kDeathBeforeEntries)
          dead.head = static_cast<Byte>(dead.room.tail);
        begin_pull(s, Server::kPull);
        enter(std::move(s));
      }
    }
  }

  bool next_ring(State& s) const {
    s.ring = static_cast<Byte>((s.ring + 1) % sizes_.producers);
    return s.ring != 0;
  }
  static void begin_pull(State& s, Server at) {
    s.at = at;
    s.ring = 0;
    s.before = s.clock;
  }

  // Called when all tails were read.
  void pulled(State& s) {
    while (Ring* const next = oldest(s)) {
      s.order.emplace_back(static_cast<Byte>(next - s.rings.data()), next->head++);
      --next->now;
      if (next->known != 0) --next->known;
      ++s.items;
    }
    for (Ring& ring : s.rings) ring.known = ring.now;
    check_order(s);
    if (s.at == Server::kPullAgain) return begin_pull(s, Server::kPullLast);
    if (s.at == Server::kPull && takes_back(s)) {
      s.at = Server::kTakeBack;
      return;
    }
    decide(s);
    s.at = Server::kPromise;
  }
  Ring* oldest(State& s) const {
    Ring* found = nullptr;
    for (Ring& ring : s.rings) {
      if (ring.now == 0) continue;
      const Byte at = ring.stamps[static_cast<std::size_t>(ring.head)];
      if (sizes_.producers > 1 && at >= s.before && ring.known == 0 &&
          mistake_ != PutRingMistake::kNoLeftover)
        continue;
      if (found != nullptr && found->stamps[static_cast<std::size_t>(found->head)] <= at) continue;
      found = &ring;
    }
    return found;
  }
  bool takes_back(const State& s) const {
    if (mistake_ == PutRingMistake::kAsksWithoutTaking) return s.over && !s.closed;
    return (s.over && !s.closed) || (s.asked && !s.put && sizes_.maxsize != 0 && room(s) == 0);
  }
  int promised(const State& s) const {
    if (mistake_ == PutRingMistake::kPromisesTwice) return 0;
    int sum = 0;
    for (const Ring& ring : s.rings) sum += ring.limit - ring.head;
    return sum;
  }
  int room(const State& s) const {
    return sizes_.maxsize == 0 ? 100 : sizes_.maxsize - s.items - promised(s);
  }
  void decide(State& s) const {
    if (s.over) s.closed = true;
    for (bool again = true; std::exchange(again, false);) {
      if (s.asked && !s.put && !s.closed && room(s) > 0) {
        s.put = again = true;
        ++s.items;
      }
      s.refused = s.asked && !s.put && !s.closed;
      if (s.getter && s.items != 0) {
        s.getter = false;
        --s.items;
        ++s.got;
        again = true;
      }
    }
  }
  void promise(State& s, Ring& ring) const {
    if (s.refused) return;
    const int missing = sizes_.slots - (ring.limit - ring.head);
    const int share = sizes_.maxsize == 0 ? sizes_.slots : std::max(1, sizes_.maxsize / 2);
    const int more = std::min({missing, room(s), share - (ring.limit - ring.head)});
    if (more <= 0) return;
    ring.limit = static_cast<Byte>(ring.limit + more);
    ring.room.limit = static_cast<std::uint32_t>(ring.limit);
  }

  // --- Invariants. ---

  // If a put returned before another put began, its item comes first.
  void check_order(const State& s) {
    for (std::size_t late = 0; late < s.order.size(); ++late) {
      const auto [ring, position] = s.order[late];
      const auto after =
          s.rings[static_cast<std::size_t>(ring)].after[static_cast<std::size_t>(position)];
      for (Byte done = 0; done < after; ++done) {
        bool before = false;
        for (std::size_t i = 0; i < late; ++i)
          before = before || s.order[i] == s.done[static_cast<std::size_t>(done)];
        expect(before, "an item passes one that was put before");
      }
    }
  }

  void enter(State s) {
    moved_ = true;
    int committed = 0;
    for (const Ring& ring : s.rings) committed += static_cast<int>(ring.room.tail) - ring.head;
    if (sizes_.maxsize != 0)
      expect(s.items + committed <= sizes_.maxsize, "more items than maxsize");
    std::string key;
    const auto put = [&](auto value) { key.push_back(static_cast<char>(value)); };
    for (const Ring& ring : s.rings) {
      put(ring.room.tail), put(ring.room.limit), put(ring.waits), put(ring.head), put(ring.limit);
      put(ring.known), put(ring.now), put(ring.wakes), put(ring.armed), put(ring.dropped);
      put(ring.at), put(ring.begun), put(ring.read.tail), put(ring.read.limit);
      for (const Byte stamp : ring.stamps) put(stamp);
      for (const Byte after : ring.after) put(after);
    }
    put(s.at), put(s.ring), put(s.before), put(s.clock), put(s.items), put(s.got);
    put(s.getter), put(s.came), put(s.asked), put(s.refused), put(s.put), put(s.touched);
    put(s.over), put(s.closed);
    for (const auto& [ring, position] : s.order) put(ring), put(position);
    put(-1);
    for (const auto& [ring, position] : s.done) put(ring), put(position);
    if (seen_.insert(std::move(key)).second) todo_.push_back(std::move(s));
  }

  // Checks a state in which neither a producer nor the server has a step to take.
  void at_rest(const State& s) {
    ++ends_;
    int there = 0;
    for (const Ring& ring : s.rings) there += static_cast<int>(ring.room.tail) - ring.head;
    expect(!s.getter || (s.items == 0 && there == 0), "a getter waits for what is there");
    expect(!s.refused || s.items + there == sizes_.maxsize, "a put waits for room that is there");
    for (std::size_t i = 0; i < s.done.size(); ++i) {
      const auto [ring, position] = s.done[i];
      const bool left = position >= s.rings[static_cast<std::size_t>(ring)].head;
      bool entered = false;
      for (const auto& one : s.order) entered = entered || one == s.done[i];
      expect(entered || left, "an item is lost that was put");
    }
  }

  void expect(bool holds, const char* what) {
    if (!holds && violation_.empty()) violation_ = what;
  }

  const PutRingSizes sizes_;
  const PutRingMistake mistake_;
  std::set<std::string> seen_;
  std::vector<State> todo_;
  bool moved_ = false;
  std::size_t ends_ = 0;
  std::string violation_;
};

}  // namespace tensorbus::link::testing
