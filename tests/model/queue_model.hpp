#pragma once

// An explicit-state model of the protocol of a queue (docs/internals/protocol.md, section 7). The
// table of the server is the code itself (queue_table.hpp). The clients are modelled, and the
// handling of each message to the server is a separate step. A client may give up, die, or take no
// step for some time, like a stopped process. Messages of the server arrive at once: a client that
// receives one late behaves like a client that acts late. The model leaves out: memory that is gone
// (TAKE with `spoilt`), a lack of memory, and what closing the queue means for producers and
// getters.

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "tensorbus/bus/queue/queue_table.hpp"
#include "tensorbus/platform/error.hpp"
#include "tests/model/queue_model_state.hpp"

namespace tensorbus::bus::testing {

class QueueModel {
 public:
  explicit QueueModel(QueueSizes sizes, QueueMistake mistake = QueueMistake::kNone)
      : sizes_(std::move(sizes)), mistake_(mistake) {
    producers_ = static_cast<int>(sizes_.puts.size());
    for (const auto& items : sizes_.puts) item_count_ += static_cast<int>(items.size());
  }

  // Explores every state that can be reached. Returns the first broken invariant, or "".
  std::string explore() {
    using Table = QueueTable<int, int>;
    const auto patience =
        sizes_.items_rest ? Table::Clock::duration::zero() : std::chrono::hours(1);
    QueueState first{Table(static_cast<std::size_t>(sizes_.maxsize), sizes_.redeliver, patience),
                     {},
                     {},
                     {},
                     0,
                     {}};
    if (sizes_.ahead != 0)
      for (int c = producers_; c < ender(); ++c) first.table.expect_from(c);
    enter(std::move(first));
    while (!todo_.empty() && violation_.empty()) {
      const QueueState state = std::move(todo_.back());
      todo_.pop_back();
      moved_ = false;
      for (int c = 0; c < clients(); ++c) {
        if (is_producer(c))
          producer_steps(state, c);
        else if (c == ender())
          ender_steps(state, c);
        else
          getter_steps(state, c);
        host_steps(state, c);
        die(state, c);
      }
      for (std::size_t i = 0; i < state.arriving.size(); ++i) leases_arrive(state, i);
      collect_later(state);
      shut_down(state);
      if (sizes_.ender) close(state);
      if (!moved_) at_rest(state);
    }
    return violation_;
  }
  std::size_t states() const { return seen_.size(); }
  std::size_t ends() const { return ends_; }

 private:
  int clients() const { return ender() + (sizes_.ender ? 1 : 0); }
  int ender() const { return producers_ + sizes_.getters; }
  bool is_producer(int client) const { return client < producers_; }
  bool holds() const { return sizes_.holds && mistake_ != QueueMistake::kHoldIsNotHeard; }
  static bool lives(const ModelClient& client) { return client.at < ClientAt::kDead; }

  // Handles the messages that the table sends.
  struct Port {
    QueueState& state;
    QueueModel& model;
    using Request = ClientRequest<int>;

    void offer(const Request& to, int item, std::uint64_t number) {
      ModelClient& getter = client(to);
      const bool late =
          model.mistake_ == QueueMistake::kLateOfferIsTaken && getter.at == ClientAt::kIdle;
      if (!late && (getter.at != ClientAt::kAsked || getter.asked != to_int8(to.number))) return;
      getter.at = ClientAt::kOffered;
      getter.item = to_int8(item);
      getter.number = to_int8(number);
    }
    void done(const Request& to) {
      if (to.client == model.ender()) {
        model.expect(state.table.is_shut_down(), "an ender gets its reply before the shutdown");
        model.expect(!QueueTableState::may_come(state.table, to.client),
                     "an ender is told that nothing is left, and something is");
        return answer_ender(to);
      }
      model.expect(!state.table.is_shut_down(), "an item is put after the end");
      answer(to, Answered::kIn);
    }
    void shut_down(const Request& to) {
      if (model.is_producer(to.client)) return answer(to, Answered::kNotIn);
      model.expect(!QueueTableState::may_come(state.table, to.client),
                   "a getter is told that nothing is left, and something is");
      ModelClient& getter = client(to);
      if (getter.at != ClientAt::kAsked || getter.asked != to_int8(to.number)) return;
      forget_offer(getter);
      getter.asked = to_int8(model.sizes_.gets);  // it sends no more requests
    }
    void timed_out(const Request& to) {
      if (to.client == model.ender()) return answer_ender(to);
      if (model.is_producer(to.client)) return answer(to, Answered::kNotIn);
      ModelClient& getter = client(to);
      if (getter.at == ClientAt::kAsked && getter.asked == to_int8(to.number)) forget_offer(getter);
    }
    void deny(const Request& to, const Error&) {
      if (to.client == model.ender()) answer_ender(to);
    }
    QueueTableState::Table::Clock::time_point now() const { return {}; }

    ModelClient& client(const Request& to) {
      return state.clients[static_cast<std::size_t>(to.client)];
    }
    void answer_ender(const Request& to) {
      ModelClient& ender = client(to);
      if (ender.at == ClientAt::kDead) return;
      model.expect(ender.at == ClientAt::kAsked || ender.at == ClientAt::kCancelling,
                   "an ender gets a second reply, or one after its end");
      ender.at = ClientAt::kIdle;
    }
    void answer(const Request& to, Answered answered) {
      ModelClient& producer = client(to);
      if (!lives(producer)) return;
      if (producer.item < 0)
        return model.expect(model.mistake_ != QueueMistake::kNone, "a put is answered twice");
      state.items[static_cast<std::size_t>(producer.item)].put = answered;
      producer.at = ClientAt::kIdle;
      producer.item = -1;
    }
  };

  // --- A producer: calls put() with a time-out, repeatedly. ---

  void producer_steps(const QueueState& from, int c) {
    const auto index = static_cast<std::size_t>(c);
    const ModelClient& self = from.clients[index];
    if (!lives(self)) return;
    const auto& items = sizes_.puts[index];
    if (self.at == ClientAt::kIdle && static_cast<std::size_t>(self.asked) < items.size()) {
      QueueState s = from;
      ModelClient& me = s.clients[index];
      me.item = to_int8(items[static_cast<std::size_t>(me.asked)]);
      me.to_server.push({Say::kPut, ++me.asked, me.item});
      me.at = ClientAt::kAsked;
      enter(std::move(s));
    }
    if (self.at == ClientAt::kAsked) {  // it gives up, and waits for the reply
      QueueState s = from;
      ModelClient& me = s.clients[index];
      me.to_server.push({Say::kCancel, me.asked});
      me.at = ClientAt::kCancelling;
      enter(std::move(s));
    }
  }

  // --- An ender: waits once, with a time-out, until the queue is shut down and nothing is left.
  // ---

  void ender_steps(const QueueState& from, int c) {
    const auto index = static_cast<std::size_t>(c);
    const ModelClient& self = from.clients[index];
    if (self.at == ClientAt::kIdle && self.asked == 0) {
      QueueState s = from;
      ModelClient& me = s.clients[index];
      me.to_server.push({Say::kEnd, ++me.asked});
      me.at = ClientAt::kAsked;
      enter(std::move(s));
    }
    if (self.at == ClientAt::kAsked) {  // it gives up, and waits for the reply
      QueueState s = from;
      ModelClient& me = s.clients[index];
      me.to_server.push({Say::kCancel, me.asked});
      me.at = ClientAt::kCancelling;
      enter(std::move(s));
    }
  }

  // Closes the queue in this state. No state follows: the server denies all later requests.
  void close(QueueState s) {
    if (!QueueTableState::ender_waits(s.table)) return;
    Port port{s, *this};
    s.table.close(port, Error(Code::kClosed, "closed"));
    const ModelClient& ender = s.clients[static_cast<std::size_t>(this->ender())];
    expect(!lives(ender) || ender.at == ClientAt::kIdle, "an ender waits for a closed queue");
  }

  // --- A getter: calls get() with a time-out, and task_done() for any item that it has. ---

  void getter_steps(const QueueState& from, int c) {
    const auto index = static_cast<std::size_t>(c);
    const ModelClient& self = from.clients[index];
    if (!lives(self)) return;
    if (self.at == ClientAt::kIdle && self.asked < sizes_.gets) {
      QueueState s = from;
      ModelClient& me = s.clients[index];
      me.to_server.push({sizes_.polls ? Say::kPoll : Say::kGet, ++me.asked});
      me.at = ClientAt::kAsked;
      for (ModelItem& item : s.items)
        if (item.holder == c && !sizes_.redeliver) item.passed = true;
      enter(std::move(s));
    }
    if (self.at == ClientAt::kIdle && self.asked < sizes_.gets) take_ahead(from, c);
    if (self.at == ClientAt::kAsked || self.at == ClientAt::kOffered) {  // get() raises Empty
      QueueState s = from;
      ModelClient& me = s.clients[index];
      if (mistake_ != QueueMistake::kCancelIsNotSent) me.to_server.push({Say::kCancel, me.asked});
      forget_offer(me);
      enter(std::move(s));
    }
    if (self.at == ClientAt::kOffered || self.at == ClientAt::kTaking) take(from, c);
    if (self.at == ClientAt::kIdle) {
      for (int i = 0; i < item_count_; ++i) {
        const ModelItem& item = from.items[static_cast<std::size_t>(i)];
        if (item.holder != c || item.done || !may_be_done(from, item)) continue;
        QueueState s = from;
        s.clients[index].to_server.push({Say::kTaskDone, 0, 0, item.number});
        s.items[static_cast<std::size_t>(i)].done = true;
        enter(std::move(s));
        if (sizes_.give_back) give_back(from, c, i);
      }
    }
  }

  void give_back(QueueState s, int c, int which) {
    ModelItem& item = s.items[static_cast<std::size_t>(which)];
    s.clients[static_cast<std::size_t>(c)].to_server.push({Say::kGiveBack, 0, 0, item.number});
    item.holder = -1;
    item.lost = !sizes_.redeliver;
    enter(std::move(s));
  }

  // Without `redeliver`, items have no numbers, and items that were finished with are done first.
  bool may_be_done(const QueueState& s, const ModelItem& wanted) const {
    if (sizes_.redeliver || wanted.passed) return true;
    for (const ModelItem& item : s.items)
      if (item.holder == wanted.holder && item.passed && !item.done) return false;
    return true;
  }

  static void forget_offer(ModelClient& client) {
    client.at = ClientAt::kIdle;
    client.item = -1;
    client.number = 0;
  }

  void take(QueueState s, int c) {
    ModelClient& me = s.clients[static_cast<std::size_t>(c)];
    if (me.at == ClientAt::kOffered) deliver(s, c, me.item, me.number);
    if (me.at == ClientAt::kOffered && (sizes_.holds || mistake_ == QueueMistake::kGetBeforeTake)) {
      me.at = ClientAt::kTaking;  // get() has returned, and TAKE follows
    } else {
      me.to_server.push({Say::kTake, me.asked});
      forget_offer(me);
    }
    enter(std::move(s));
  }

  void deliver(QueueState& s, int c, int which, int number) {
    ModelItem& item = s.items[static_cast<std::size_t>(which)];
    if (sizes_.getters == 1 && producers_ == 1 && sizes_.deaths == 0)
      for (int i = 0; i < which; ++i)
        expect(s.items[static_cast<std::size_t>(i)].put != Answered::kIn ||
                   s.items[static_cast<std::size_t>(i)].holder != -1,
               "an item overtakes another");
    expect(item.holder == -1 || sizes_.redeliver, "an item is delivered twice");
    expect(item.holder == -1 || !lives(s.clients[static_cast<std::size_t>(item.holder)]),
           "two clients have the same item");
    expect(!item.done, "an item that was done is delivered again");
    item.holder = to_int8(c);
    item.number = to_int8(number);
    item.passed = false;
  }

  // --- Items lent in advance: one swap takes the oldest. The server first collects takers. ---

  void take_ahead(QueueState s, int c) {
    const auto first =
        std::ranges::find_if(s.ahead, [](const ModelAhead& lent) { return lent.taker == -1; });
    if (first == s.ahead.end()) return;
    const Wire& said = s.clients[static_cast<std::size_t>(c)].to_server;
    if (mistake_ != QueueMistake::kAheadOfAGet &&
        std::any_of(said.messages.begin(), said.messages.begin() + said.count,
                    [](const Message& message) {
                      return message.say == Say::kGet || message.say == Say::kPoll;
                    }))
      return;
    first->taker = to_int8(c);
    ++s.clients[static_cast<std::size_t>(c)].asked;
    for (ModelItem& item : s.items)
      if (item.holder == c && !sizes_.redeliver) item.passed = true;
    deliver(s, c, first->item, first->number);
    enter(std::move(s));
  }
  static void collect(QueueState& s) {
    for (; !s.ahead.empty() && s.ahead.front().taker != -1; s.ahead.erase(s.ahead.begin()))
      s.table.take_ahead(s.ahead.front().taker);
  }
  // The step of a server that a getter has woken.
  void collect_later(const QueueState& from) {
    if (from.ahead.empty() || from.ahead.front().taker == -1) return;
    QueueState s = from;
    Port port{s, *this};
    collect(s);
    s.table.settle(port);
    settled(std::move(s));
  }
  void take_back_ahead(QueueState& s) {
    if (mistake_ != QueueMistake::kClaimIsNotSeen) collect(s);
    s.ahead.clear();
    s.table.take_back_ahead();
    Port port{s, *this};
    if (mistake_ != QueueMistake::kRoomIsNotSeen) s.table.settle(port);
  }
  void lend_ahead(QueueState& s) const {
    s.table.lend_ahead([&](int item, std::uint64_t number) {
      if (s.ahead.size() == static_cast<std::size_t>(sizes_.ahead)) return false;
      s.ahead.push_back({to_int8(item), to_int8(number)});
      return true;
    });
  }

  // --- The server: handles one message of a client, or the end of a client. ---

  void host_steps(const QueueState& from, int c) {
    const auto index = static_cast<std::size_t>(c);
    if (from.clients[index].to_server.count != 0) {
      QueueState s = from;
      Port port{s, *this};
      const Message heard = s.clients[index].to_server.pop();
      if (heard.say != Say::kGet && heard.say != Say::kPoll) {  // these collect takers later
        collect(s);
        s.table.settle(port);
      }
      hear(s, port, c, heard);
      settled(std::move(s));
    }
    const bool heard_all =
        from.clients[index].to_server.count == 0 || mistake_ == QueueMistake::kDeathBeforeMessages;
    if (from.clients[index].at == ClientAt::kDead && heard_all) {
      QueueState s = from;
      Port port{s, *this};
      if (mistake_ == QueueMistake::kOfferDiesWithGetter)
        for (const auto& offer : QueueTableState::offers(s.table, c)) s.table.spoil(port, offer);
      if (holds() && !sizes_.redeliver) lose_offers(s, c);
      if (mistake_ == QueueMistake::kTakenByTheDead)
        for (ModelAhead& lent : s.ahead)
          if (lent.taker == c) lent.taker = -1;
      take_back_ahead(s);
      s.table.forget(port, c);
      s.clients[index] = {};
      s.clients[index].at = ClientAt::kForgotten;
      settled(std::move(s));
    }
  }

  // Items that the client was offered and had not passed on are lost, too.
  static void lose_offers(QueueState& s, int c) {
    for (const int offered : QueueTableState::offered_items(s.table, c)) {
      ModelItem& item = s.items[static_cast<std::size_t>(offered)];
      if (item.holder == -1) item.lost = true;
    }
  }

  void hear(QueueState& s, Port& port, int c, const Message& heard) {
    const ClientRequest<int> from{c, static_cast<std::uint32_t>(heard.request)};
    switch (heard.say) {
      case Say::kPut:
        if (s.table.arrive(port, from, true)) s.arriving.emplace_back(from, heard.item);
        return;
      case Say::kGet:
        if (mistake_ == QueueMistake::kOverTooEarly && s.table.is_shut_down() &&
            !QueueTableState::any_waits(s.table))
          return port.shut_down(from);
        take_back_ahead(s);
        return s.table.get(port, from, true, holds());
      case Say::kPoll:
        take_back_ahead(s);
        return s.table.get(port, from, false, holds());
      case Say::kEnd:
        if (mistake_ == QueueMistake::kEndTooEarly && s.table.is_shut_down() &&
            !QueueTableState::any_waits(s.table))
          return port.done(from);
        return s.table.drain(port, from, true);
      case Say::kTake:
        s.table.take(port, from);
        return;
      case Say::kCancel:
        return cancel(s, port, from);
      case Say::kGiveBack:
        try {
          const auto number = static_cast<std::uint64_t>(heard.number);
          take_back_ahead(s);
          if (mistake_ == QueueMistake::kGiveBackIsDone) return s.table.task_done(port, c, number);
          return s.table.give_back(port, c, number);
        } catch (const Error&) {
          return expect(false, "an item that a client gives back is not in its hand");
        }
      case Say::kTaskDone:
        try {
          s.table.task_done(port, c,
                            mistake_ == QueueMistake::kDoneOfAnyItem
                                ? QueueTableState::first_in_hand(s.table, c)
                                : static_cast<std::uint64_t>(heard.number));
        } catch (const Error&) {
          expect(false, "an item that a client took is not in its hand");
        }
        return;
      default:
        return;
    }
  }

  void cancel(QueueState& s, Port& port, const ClientRequest<int>& request) {
    if (mistake_ == QueueMistake::kCancelledPutArrives)
      for (const auto& [from, item] : s.arriving)
        if (from == request) return port.timed_out(request);
    const auto before = s.table.items();
    int offered = -1;
    if (mistake_ == QueueMistake::kReturnsTwice && !is_producer(request.client))
      for (const auto& offer : QueueTableState::offers(s.table, request.client))
        if (offer == request) offered = 0;
    s.table.cancel(port, request);
    if (offered == -1 || s.table.items() != before) return;
    for (int item = 0; item < item_count_; ++item) {
      if (QueueTableState::times_waiting(s.table, item) == 0) continue;
      s.table.arrive(port, request, true);
      s.table.put(port, request, item);
      return;
    }
  }

  void leases_arrive(QueueState s, std::size_t which) {
    const auto [from, item] = s.arriving[which];
    s.arriving.erase(s.arriving.begin() + static_cast<std::ptrdiff_t>(which));
    Port port{s, *this};
    collect(s);
    s.table.settle(port);
    s.table.put(port, from, item);
    settled(std::move(s));
  }

  void shut_down(const QueueState& from) {
    if (sizes_.shut_down == ShutDown::kNever || from.table.is_shut_down()) return;
    QueueState s = from;
    Port port{s, *this};
    collect(s);
    if (sizes_.shut_down == ShutDown::kDrops) take_back_ahead(s);
    s.table.shut_down(
        port, sizes_.shut_down == ShutDown::kDrops || mistake_ == QueueMistake::kShutDownDrops);
    settled(std::move(s));
  }

  void settled(QueueState s) {
    if (mistake_ == QueueMistake::kOfferIsInHand)
      for (int c = producers_; c < clients(); ++c)
        for (const auto& offer : QueueTableState::offers(s.table, c)) {
          Port port{s, *this};
          s.table.take(port, offer);
        }
    lend_ahead(s);
    expect(!QueueTableState::somebody_waits_for_what_is_there(s.table),
           "somebody waits for what is there");
    expect(!QueueTableState::somebody_waits_in_vain(s.table), "somebody waits in vain");
    expect(QueueTableState::all(s.table) == s.table.unfinished(), "unfinished is another number");
    enter(std::move(s));
  }

  // --- Clients and server. ---

  void die(const QueueState& from, int c) {
    if (from.deaths == sizes_.deaths || !lives(from.clients[static_cast<std::size_t>(c)])) return;
    QueueState s = from;
    ++s.deaths;
    ModelClient& client = s.clients[static_cast<std::size_t>(c)];
    client.at = ClientAt::kDead;
    client.asked = 0;
    client.item = -1;
    client.number = 0;
    enter(std::move(s));
  }

  void enter(QueueState s) {
    moved_ = true;
    key_.clear();
    QueueTableState::encode(s.table, key_);
    const auto put = [&](auto value) { key_.push_back(static_cast<char>(value)); };
    for (int c = 0; c < clients(); ++c) {
      const ModelClient& client = s.clients[static_cast<std::size_t>(c)];
      put(client.at), put(client.asked), put(client.item), put(client.number);
      put(client.to_server.count);
      for (int i = 0; i < client.to_server.count; ++i) {
        const Message& message = client.to_server.messages[static_cast<std::size_t>(i)];
        put(message.say), put(message.request), put(message.item), put(message.number);
      }
    }
    for (int i = 0; i < item_count_; ++i) {
      const ModelItem& item = s.items[static_cast<std::size_t>(i)];
      put(item.put), put(item.holder), put(item.number), put(item.done), put(item.passed),
          put(item.lost);
    }
    for (const auto& [from, item] : s.arriving) put(from.client), put(from.number), put(item);
    for (const ModelAhead& lent : s.ahead) put(lent.item), put(lent.number), put(lent.taker);
    if (seen_.insert(fingerprint(key_)).second) todo_.push_back(std::move(s));
  }

  // 128 bits of a state. The probability that two of 10^8 states have the same bits is about
  // 10^-22.
  struct Fingerprint {
    std::uint64_t low;
    std::uint64_t high;
    bool operator==(const Fingerprint&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Fingerprint& print) const { return print.low; }
  };
  static Fingerprint fingerprint(std::string_view key) {
    Fingerprint print{0x9e3779b97f4a7c15, 0xc2b2ae3d27d4eb4f};
    for (const char byte : key) {
      print.low = (print.low ^ static_cast<unsigned char>(byte)) * 0xff51afd7ed558ccd;
      print.low ^= print.low >> 32;
      print.high = (print.high + static_cast<unsigned char>(byte) + 1) * 0xc4ceb9fe1a85ec53;
      print.high ^= print.high >> 29;
    }
    return print;
  }

  // Checks a state in which nothing can happen any more: every item must be accounted for.
  void at_rest(const QueueState& s) {
    ++ends_;
    expect(!QueueTableState::has_offers(s.table), "an offer that nobody answers");
    if (sizes_.ender) {
      const ModelClient& ender = s.clients[static_cast<std::size_t>(this->ender())];
      expect(!lives(ender) || ender.at == ClientAt::kIdle, "an ender that gave up gets no reply");
    }
    std::uint64_t lost = 0;
    for (int producer = 0; producer < producers_; ++producer)
      for (const int i : sizes_.puts[static_cast<std::size_t>(producer)]) {
        const ModelItem& item = s.items[static_cast<std::size_t>(i)];
        const int waiting = QueueTableState::times_waiting(s.table, i);
        expect(waiting <= 1, "an item is in the queue twice");
        const bool is_there = waiting == 1 || item.holder != -1 || item.lost;
        expect(!is_there || item.put != Answered::kNotIn, "an item is there that was not put");
        const bool dropped = sizes_.shut_down == ShutDown::kDrops && s.table.is_shut_down();
        expect(!dropped || waiting == 0, "an item waits in a queue that drops all");
        expect(is_there || dropped || item.put != Answered::kIn, "an item is lost that nobody got");
        if (item.lost) ++lost;
        if (item.holder == -1) continue;
        const bool holder_lives = lives(s.clients[static_cast<std::size_t>(item.holder)]);
        if (sizes_.redeliver && !dropped)
          expect((waiting == 1) == (!holder_lives && !item.done), "an item did not come back once");
        else
          expect(waiting == 0, "an item came back that had been delivered");
        if (!sizes_.redeliver && !holder_lives && !item.done && !item.passed) ++lost;
      }
    expect(s.table.lost() == lost, "lost items are counted wrongly");
  }

  void expect(bool holds, const char* what) {
    if (!holds && violation_.empty()) violation_ = what;
  }

  const QueueSizes sizes_;
  const QueueMistake mistake_;
  int producers_ = 0;
  int item_count_ = 0;
  std::unordered_set<Fingerprint, Hash> seen_;
  std::vector<QueueState> todo_;
  std::string key_;  // the encoding of the state that is entered
  bool moved_ = false;
  std::size_t ends_ = 0;
  std::string violation_;
};

}  // namespace tensorbus::bus::testing
