#pragma once

// An explicit-state model of a queue that clients of another machine use through proxies
// (docs/internals/decisions/0050-remote-queues-by-proxies.md): the bridge of the queue's machine,
// A, has one client of the queue for each client there is at B, and passes its messages on. The
// table of the queue is the code itself (queue_table.hpp). The clients, both bridges and the
// messages between them are modelled: these arrive in order, after any delay, until the connection
// is cut for good. Each bridge learns of the cut at its own time.

#include <cstdint>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "tensorbus/bus/queue/queue_table.hpp"
#include "tests/model/queue_model_state.hpp"
#include "tests/model/queue_proxy_model_state.hpp"

namespace tensorbus::bus::testing {

class QueueProxyModel {
 public:
  explicit QueueProxyModel(ProxySizes sizes, ProxyMistake mistake = ProxyMistake::kNone)
      : sizes_(sizes), mistake_(mistake) {}

  // Explores every state that can be reached. Returns the first broken invariant, or "".
  std::string explore() {
    ProxyState first{QueueTable<int, int>(0, sizes_.redeliver)};
    Port port{first, *this};
    for (int i = 0; i < sizes_.items; ++i) {
      const ClientRequest<int> from{kLocal, static_cast<std::uint32_t>(100 + i)};
      first.table.arrive(port, from, true);
      first.table.put(port, from, i);
    }
    enter(std::move(first));
    while (!todo_.empty() && violation_.empty()) {
      const ProxyState state = std::move(todo_.back());
      todo_.pop_back();
      moved_ = false;
      bridge_steps(state);
      if (!moved_) at_rest(state);
      for (int c = 0; c <= kLocal; ++c) client_steps(state, c);
      ends(state);
    }
    return violation_;
  }
  std::size_t states() const { return seen_.size(); }
  std::size_t rests() const { return rests_; }

 private:
  static std::size_t index(int c) { return static_cast<std::size_t>(c); }
  static bool lives(const RemoteClient& client) { return client.at != RemoteAt::kDead; }
  bool is(ProxyMistake mistake) const { return mistake_ == mistake; }

  // Handles the messages that the table sends: to A's bridge, or to the client at A.
  struct Port {
    ProxyState& s;
    QueueProxyModel& model;
    using Request = ClientRequest<int>;

    void offer(const Request& to, int item, std::uint64_t number) {
      if (to.client == kLocal) {
        RemoteClient& local = s.clients[kLocal];
        local.at = RemoteAt::kOffered;
        local.item = to_int8(item);
        local.number = to_int8(number);
        return;
      }
      ProxyOffer& proxy = s.proxies[index(to.client)];
      model.expect(proxy.item == -1, "a client is offered two items");
      proxy = {to_int8(item), to_int8(number), to_int8(to.number), false};
    }
    void done(const Request&) {}  // of the first puts
    void timed_out(const Request&) {}
    void shut_down(const Request& to) {
      model.expect(!QueueTableState::may_come(s.table, to.client),
                   "a getter is told that nothing is left, and something is");
      if (to.client == kLocal)
        s.clients[kLocal].at = RemoteAt::kClosed;
      else
        model.send(s, s.down[index(to.client)], {Relayed::kShutDown, to_int8(to.number)});
    }
    void deny(const Request&, const Error&) { model.expect(false, "a request is denied"); }
    QueueTable<int, int>::Clock::time_point now() const { return {}; }
  };

  static void send(const ProxyState& s, std::vector<RelayedMessage>& wire,
                   const RelayedMessage& message) {
    if (!s.cut) wire.push_back(message);
  }
  // A message of a client to the queue: at once from A, through both bridges from B.
  void tell(ProxyState& s, int c, const RelayedMessage& message) {
    if (c == kLocal)
      hear(s, c, message);
    else
      send(s, s.up[index(c)], message);
  }

  // --- A client: gets with a timeout, and finishes what it has got. ---

  void client_steps(const ProxyState& from, int c) {
    const RemoteClient& self = from.clients[index(c)];
    if (self.at == RemoteAt::kIdle && self.asked < sizes_.gets) ask(from, c);
    if (self.at == RemoteAt::kAsked || self.at == RemoteAt::kOffered) give_up(from, c);
    if (self.at == RemoteAt::kOffered) accept(from, c);
    if (self.at == RemoteAt::kIdle) finish(from, c);
    if (c != kLocal && lives(self) && from.deaths < sizes_.deaths) die(from, c);
  }
  void ask(ProxyState s, int c) {
    RemoteClient& me = s.clients[index(c)];
    me.at = RemoteAt::kAsked;
    ++me.asked;
    if (!sizes_.redeliver)
      for (ProxyItem& item : s.items) item.passed |= item.holder == c;
    tell(s, c, {Relayed::kGet, me.asked});
    enter(std::move(s));
  }
  void give_up(ProxyState s, int c) {
    RemoteClient& me = s.clients[index(c)];
    me.at = RemoteAt::kIdle;
    me.item = -1;
    tell(s, c, {Relayed::kCancel, me.asked});
    enter(std::move(s));
  }
  void accept(ProxyState s, int c) {
    RemoteClient& me = s.clients[index(c)];
    ProxyItem& item = s.items[index(me.item)];
    // After a cut, a client of B may have an item, or take it, that waits in the queue again.
    const bool is_cut_off = s.cut && (item.holder != kLocal || c != kLocal);
    const bool came_back =
        item.holder == -1 || is_cut_off || (!item.done && !lives(s.clients[index(item.holder)]));
    expect(came_back && (sizes_.redeliver || item.holder == -1), "an item is delivered twice");
    item.holder = to_int8(c);
    item.number = me.number;
    item.done = item.passed = false;
    item.at_a |= c == kLocal;
    me.at = RemoteAt::kIdle;
    me.item = -1;
    tell(s, c, {Relayed::kTake, me.asked});
    enter(std::move(s));
  }
  void finish(const ProxyState& from, int c) {
    for (int i = 0; i < sizes_.items; ++i) {
      const ProxyItem& item = from.items[index(i)];
      if (item.holder != c || item.done || !may_be_done(from, item)) continue;
      ProxyState s = from;
      s.items[index(i)].done = true;
      tell(s, c, {Relayed::kDone, 0, 0, item.number});
      enter(std::move(s));
    }
  }
  // Without `redeliver`, items have no numbers, and those that were finished with are done first.
  static bool may_be_done(const ProxyState& s, const ProxyItem& wanted) {
    if (wanted.passed) return true;
    for (const ProxyItem& item : s.items)
      if (item.holder == wanted.holder && item.passed && !item.done) return false;
    return true;
  }
  // B's bridge reads the last messages of a dead client before it notices the death.
  void die(ProxyState s, int c) {
    ++s.deaths;
    s.clients[index(c)] = {RemoteAt::kDead};
    std::vector<RelayedMessage>& wire = s.up[index(c)];
    if (is(ProxyMistake::kDeathBeforeMessages)) wire.clear();
    if (!is(ProxyMistake::kDeathIsNotTold)) send(s, wire, {Relayed::kDied});
    enter(std::move(s));
  }

  // --- The bridges. ---

  void bridge_steps(const ProxyState& from) {
    for (int c = 0; c < kRemotes; ++c) {
      if (!from.up[index(c)].empty()) {
        ProxyState s = from;
        const RelayedMessage message = pop(s.up[index(c)]);
        hear(s, c, message);
        enter(std::move(s));
      }
      if (!from.down[index(c)].empty()) {
        ProxyState s = from;
        hear_at_b(s.clients[index(c)], pop(s.down[index(c)]));
        enter(std::move(s));
      }
      const ProxyOffer& offer = from.proxies[index(c)];
      if (offer.item != -1 && !offer.sent && !from.ended_at_a) {
        ProxyState s = from;
        s.proxies[index(c)].sent = s.items[index(offer.item)].sent = true;
        send(s, s.down[index(c)], {Relayed::kOffer, offer.request, offer.item, offer.number});
        enter(std::move(s));
      }
    }
    if (from.cut && !from.ended_at_a) end_at_a(from);
    if (from.cut && !from.ended_at_b) {
      ProxyState s = from;
      s.ended_at_b = true;
      for (int c = 0; c < kRemotes; ++c)
        if (lives(s.clients[index(c)])) s.clients[index(c)].at = RemoteAt::kClosed;
      enter(std::move(s));
    }
  }
  static RelayedMessage pop(std::vector<RelayedMessage>& wire) {
    const RelayedMessage first = wire.front();
    wire.erase(wire.begin());
    return first;
  }
  void hear_at_b(RemoteClient& client, const RelayedMessage& message) const {
    const bool late = is(ProxyMistake::kLateOfferIsTaken) && client.at == RemoteAt::kIdle;
    const bool asked = client.at == RemoteAt::kAsked && client.asked == message.request;
    if (!asked && !late) return;
    if (message.what == Relayed::kShutDown) {
      client.at = RemoteAt::kIdle;
      client.asked = to_int8(sizes_.gets);
    } else {
      client.at = RemoteAt::kOffered;
      client.item = message.item;
      client.number = message.number;
    }
  }
  // A message of a client has come to its proxy, which passes it on.
  void hear(ProxyState& s, int c, const RelayedMessage& message) {
    Port port{s, *this};
    const ClientRequest<int> request{c, static_cast<std::uint32_t>(message.request)};
    const bool holds = c != kLocal && !is(ProxyMistake::kHoldIsNotHeard);
    switch (message.what) {
      case Relayed::kGet:
        return s.table.get(port, request, true, holds);
      case Relayed::kTake:
        if (c != kLocal) s.proxies[index(c)] = {};
        s.table.take(port, request);
        return;
      case Relayed::kCancel:
        if (c != kLocal) s.proxies[index(c)] = {};
        return s.table.cancel(port, request, true);
      case Relayed::kDone:
        try {
          s.table.task_done(port, c, static_cast<std::uint64_t>(message.number));
        } catch (const Error&) {
          expect(false, "an item that a client took is not in its hand");
        }
        return;
      default:  // kDied
        if (!is(ProxyMistake::kDeadLosesOffers)) cancel_offer(s, c);
        s.proxies[index(c)] = {};
        return s.table.forget(port, c);
    }
  }
  static ClientRequest<int> offered(const ProxyState& s, int c) {
    return {c, static_cast<std::uint32_t>(s.proxies[index(c)].request)};
  }
  void cancel_offer(ProxyState& s, int c) {
    if (s.proxies[index(c)].item == -1) return;
    Port port{s, *this};
    const ClientRequest<int> request = offered(s, c);
    s.proxies[index(c)] = {};
    s.table.cancel(port, request, true);
  }

  // --- The end of the session, and of A's bridge. ---

  void ends(const ProxyState& from) {
    if (from.cut) return;
    if (sizes_.cut) {
      ProxyState s = from;
      cut(s);
      enter(std::move(s));
    }
    if (sizes_.bridge_dies) {
      ProxyState s = from;
      cut(s);
      s.bridge_died = s.ended_at_a = true;
      s.proxies = {};
      Port port{s, *this};
      for (int c = 0; c < kRemotes; ++c) s.table.forget(port, c);
      enter(std::move(s));
    }
    if (sizes_.shuts_down && !from.table.is_shut_down()) {
      ProxyState s = from;
      Port port{s, *this};
      s.table.shut_down(port, false);
      enter(std::move(s));
    }
  }
  static void cut(ProxyState& s) {
    s.cut = true;
    s.up = {};
    s.down = {};
  }
  // Without `redeliver`, an item that was sent counts as lost: a client of B may have it.
  void end_at_a(ProxyState s) {
    s.ended_at_a = true;
    Port port{s, *this};
    for (int c = 0; c < kRemotes; ++c) {
      const ProxyOffer offer = s.proxies[index(c)];
      const bool may_go_back = sizes_.redeliver || is(ProxyMistake::kSentGoesBack);
      if (offer.item != -1 && (is(ProxyMistake::kUnsentIsLost) || (offer.sent && !may_go_back))) {
        const ClientRequest<int> request = offered(s, c);
        s.proxies[index(c)] = {};
        s.table.take(port, request);  // in hand, and lost when the client is forgotten
      }
      const std::uint64_t held = QueueTableState::first_in_hand(s.table, c);
      if (is(ProxyMistake::kEndFinishesItems) && held != 0) s.table.task_done(port, c, held);
      cancel_offer(s, c);
      s.table.forget(port, c);
    }
    enter(std::move(s));
  }

  // Checks a state in which the bridges have nothing to do: every item must be accounted for.
  void at_rest(const ProxyState& s) {
    ++rests_;
    std::uint64_t lost_at_deaths = 0;
    std::uint64_t sent = 0;
    for (int i = 0; i < sizes_.items; ++i) {
      const ProxyItem& item = s.items[index(i)];
      const bool waits = QueueTableState::times_waiting(s.table, i) == 1;
      const bool is_here = waits || is_offered(s, i);
      sent += item.sent ? 1 : 0;
      if (item.holder == -1) {
        const bool may_be_lost = s.cut && !sizes_.redeliver && (item.sent || s.bridge_died);
        if (!may_be_lost) expect(is_here, "an item is lost that nobody got");
        continue;
      }
      const bool died = !lives(s.clients[index(item.holder)]) && !item.done;
      const bool was_cut_off = s.cut && item.holder != kLocal && !item.done;
      if (sizes_.redeliver && (died || was_cut_off))
        expect(is_here || item.at_a, "an item did not come back");
      if (died && !item.passed) ++lost_at_deaths;
    }
    if (sizes_.redeliver)
      expect(s.table.lost() == 0, "an item is lost with `redeliver`");
    else if (!s.cut)
      expect(s.table.lost() == lost_at_deaths, "lost items are counted wrongly");
    else if (!s.bridge_died)
      expect(s.table.lost() <= sent, "an item is lost that was not sent");
    if (!s.ended_at_a) return;
    for (int c = 0; c < kRemotes; ++c)
      expect(QueueTableState::offers(s.table, c).empty() &&
                 QueueTableState::first_in_hand(s.table, c) == 0,
             "a client is left after the session");
  }
  static bool is_offered(const ProxyState& s, int item) {
    for (const RemoteClient& client : s.clients)
      if (client.at == RemoteAt::kOffered && client.item == item) return true;
    return false;
  }

  void enter(ProxyState s) {
    moved_ = true;
    expect(!QueueTableState::somebody_waits_for_what_is_there(s.table),
           "somebody waits for what is there");
    expect(!QueueTableState::somebody_waits_in_vain(s.table), "somebody waits in vain");
    key_.clear();
    QueueTableState::encode(s.table, key_);
    const auto put = [&](auto value) { key_.push_back(static_cast<char>(value)); };
    for (const RemoteClient& client : s.clients)
      put(client.at), put(client.asked), put(client.item), put(client.number);
    for (const ProxyOffer& offer : s.proxies)
      put(offer.item), put(offer.number), put(offer.request), put(offer.sent);
    for (const ProxyItem& item : s.items)
      put(item.holder), put(item.number), put(item.done), put(item.passed), put(item.sent),
          put(item.at_a);
    for (const auto* wires : {&s.up, &s.down})
      for (const auto& wire : *wires) {
        put(wire.size());
        for (const RelayedMessage& each : wire)
          put(each.what), put(each.request), put(each.item), put(each.number);
      }
    put(s.deaths), put(s.cut), put(s.ended_at_a), put(s.ended_at_b), put(s.bridge_died);
    if (seen_.insert(key_).second) todo_.push_back(std::move(s));
  }
  void expect(bool holds, const char* what) {
    if (!holds && violation_.empty()) violation_ = what;
  }

  const ProxySizes sizes_;
  const ProxyMistake mistake_;
  std::unordered_set<std::string> seen_;
  std::vector<ProxyState> todo_;
  std::string key_;  // the encoding of the state that is entered
  bool moved_ = false;
  std::size_t rests_ = 0;
  std::string violation_;
};

}  // namespace tensorbus::bus::testing
