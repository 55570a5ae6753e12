#pragma once

// An explicit-state model of the protocol of a mirror (docs/internals/protocol.md, section 7). The
// table of the mirror is the code itself (mirror_table.hpp). Its clients, the bridge beside it, the
// home, and the messages between bridge and home are modelled. These messages arrive in order,
// after any delay. Clients get, poll, put, call, give up, refuse, finish and die in every order.
// Messages of clients arrive at once: queue_model.hpp models their delays.

#include <array>
#include <cstdint>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "tensorbus/bus/queue/mirror_table.hpp"
#include "tests/model/queue_model_state.hpp"

namespace tensorbus::bus::testing {

struct MirrorSizes {
  int requests = 2;  // of each of two clients
  int items = 1;     // at home, from the start
  bool redeliver = false;
  int deaths = 1;
  bool ends = false;  // the home is shut down
  bool puts = true;   // clients put and call, too
};

// Mistakes that the model must find.
enum class MirrorMistake {
  kNone,
  kDeathIsNotTold,       // the home is not notified of an item in the hand of a dead client
  kCancelIsAnAnswer,     // a put that is given up gets a reply at once, and one from the home
  kSurplusStays,         // an item for which no get waits is not withdrawn
  kOverAlways,           // OVER takes effect although an item went back meanwhile
  kPollIsNotAsked,       // a get that does not wait sends no poll to the home
  kWithdrawsWhatIsHeld,  // the home counts withdrawn items as lost
  kDemandAddsUp,         // the home adds a demand to the last one
};

// The states of a client of the mirror, and of an item.
enum class MirrorClientAt : std::uint8_t { kIdle, kGets, kPolls, kArrives, kPuts, kOffered, kDead };
struct MirrorClient {
  MirrorClientAt at = MirrorClientAt::kIdle;
  std::int8_t request = 0;  // the last request
  std::int8_t item = -1;    // the offered item
  std::int8_t tag = 0;      // of the offer, 0 without `redeliver`
  bool gave_up = false;     // the put was given up
  bool operator==(const MirrorClient&) const = default;
};
inline constexpr std::int8_t kFree = -1, kItemDone = -2, kItemLost = -3;  // >= 0: the client
enum class AtHome : std::uint8_t { kWaits, kSent, kTaken, kGone };
struct MirrorModelItem {
  std::int8_t truth = kFree;
  std::int8_t tag = 0;           // the latest tag
  AtHome home = AtHome::kWaits;  // the state in the home's table
};

enum class Tell : std::uint8_t {
  kDemand,
  kAsk,
  kPoll,
  kCancel,
  kTaken,
  kSpoilt,
  kDone,
  kDied,
  kRefused,  // the last of the messages to the home
  kItem,
  kAnswer,
  kOver,  // the last of the messages to the mirror
};
struct Told {
  Tell what{};
  std::int8_t value = 0;  // an id, a tag, or a number
};

struct MirrorState {
  MirrorTable<int, int> table;
  std::array<MirrorClient, 2> clients{};
  std::array<MirrorModelItem, 2> items{};
  std::vector<Told> to_home{};
  std::vector<Told> to_mirror{};
  std::vector<Told> owed{};  // replies that the home still has to send
  std::int8_t demand = 0;    // the last demand that the home has received
  std::int8_t died = 0;      // items of dead clients of which the home was notified
  std::int8_t tags = 0;      // number of used tags
  std::int8_t in_hand = 0;   // by the home's count; without `redeliver`
  std::int8_t deaths = 0;
  bool said_over = false;  // OVER was sent after the last demand
  bool looks = false;      // the bridge must check for items for which no get waits
};

}  // namespace tensorbus::bus::testing

namespace tensorbus::bus {

// Gives the model access to a mirror's table.
struct MirrorTableState {
  using Table = MirrorTable<int, int>;

  static void encode(const Table& table, std::string& to) {
    QueueTableState::encode(table.table_, to);
    const auto put = [&](auto value) { to.push_back(static_cast<char>(value)); };
    put(table.arriving_.size()), put(table.relayed_.size()), put(table.polls_.size());
    for (const auto& from : table.arriving_) put(from.client), put(from.number);
    for (const auto& [id, relayed] : table.relayed_)
      put(id), put(relayed.from.client), put(relayed.cancelled);
    for (const auto& [id, from] : table.polls_) put(id), put(from.client);
    put(table.last_id_), put(table.died_), put(table.notified_);
  }
  static const QueueTable<int, int>& table_of(const Table& table) { return table.table_; }
};

}  // namespace tensorbus::bus

namespace tensorbus::bus::testing {

class MirrorModel {
 public:
  explicit MirrorModel(MirrorSizes sizes, MirrorMistake mistake = MirrorMistake::kNone)
      : sizes_(sizes), mistake_(mistake) {}

  // Explores every state that can be reached. Returns the first broken invariant, or "".
  std::string explore() {
    enter({MirrorTable<int, int>(sizes_.redeliver)});
    while (!todo_.empty() && violation_.empty()) {
      const MirrorState state = std::move(todo_.back());
      todo_.pop_back();
      moved_ = false;
      home_steps(state);
      bridge_steps(state);
      for (int c = 0; c < 2; ++c)
        if (at(state, c).at == MirrorClientAt::kArrives) leases_arrive(state, c);
      if (!moved_) at_rest(state);
      for (int c = 0; c < 2; ++c) client_steps(state, c);
    }
    return violation_;
  }
  std::size_t states() const { return seen_.size(); }
  std::size_t rests() const { return rests_; }

 private:
  using At = MirrorClientAt;
  using Request = ClientRequest<int>;

  static const MirrorClient& at(const MirrorState& s, int c) {
    return s.clients[static_cast<std::size_t>(c)];
  }
  static MirrorClient& at(MirrorState& s, int c) { return s.clients[static_cast<std::size_t>(c)]; }
  static Request request_of(const MirrorState& s, int c) {
    return {c, static_cast<std::uint32_t>(at(s, c).request)};
  }
  static bool gets(const MirrorClient& client) {
    return client.at == At::kGets || client.at == At::kPolls;
  }
  MirrorModelItem& item_of(MirrorState& s, int tag) {
    for (int i = 0; i < sizes_.items; ++i)
      if (s.items[static_cast<std::size_t>(i)].tag == tag)
        return s.items[static_cast<std::size_t>(i)];
    expect(false, "the home hears of a tag that it did not send");
    return s.items[0];
  }
  // Returns true if an item may come to this client: one that is not done, not lost, and not in its
  // own hand.
  bool may_come(const MirrorState& s, int c) const {
    for (int i = 0; i < sizes_.items; ++i) {
      const std::int8_t truth = s.items[static_cast<std::size_t>(i)].truth;
      if (truth == kFree || (sizes_.redeliver && truth >= 0 && truth != c)) return true;
    }
    return false;
  }

  // Handles the messages that the table sends.
  struct Port {
    MirrorState& s;
    MirrorModel& model;
    using Request = MirrorModel::Request;

    void offer(const Request& to, int item, std::uint64_t number) {
      MirrorClient& client = at(s, to.client);
      model.expect(gets(client) && to == request_of(s, to.client),
                   "an offer that nobody asked for");
      client.at = At::kOffered;
      client.item = to_int8(item);
      client.tag = to_int8(number);
    }
    void done(const Request&) { model.expect(false, "the mirror answers a put by itself"); }
    void deny(const Request&, const Error&) { model.expect(false, "a request is denied"); }
    void timed_out(const Request& to) {
      MirrorClient& client = at(s, to.client);
      if (to != request_of(s, to.client) || client.at == At::kIdle) return;  // a cancelled get
      model.expect(client.at == At::kPolls || client.at == At::kArrives,
                   "the mirror answers a request by itself");
      client.at = At::kIdle;
    }
    void shut_down(const Request& to) {
      model.expect(!model.may_come(s, to.client),
                   "a getter is told that nothing is left, and something is");
      if (gets(at(s, to.client))) at(s, to.client).at = At::kIdle;
    }
    QueueTable<int, int>::Clock::time_point now() const { return {}; }

    void demand(std::size_t count) {
      tell(Tell::kDemand, count);
      s.looks = true;
    }
    void cancelled(std::uint64_t id) {
      tell(Tell::kCancel, id);
      if (model.mistake_ == MirrorMistake::kCancelIsAnAnswer) tell_client(id);
    }
    void taken(std::uint64_t tag) { tell(Tell::kTaken, tag); }
    void spoilt(std::uint64_t tag) { tell(Tell::kSpoilt, tag); }
    void done(std::uint64_t what) { tell(Tell::kDone, what); }
    void died(std::uint64_t what) {
      if (model.mistake_ != MirrorMistake::kDeathIsNotTold) tell(Tell::kDied, what);
    }
    void passed(std::uint64_t) {}

    void tell(Tell what, std::uint64_t value) { s.to_home.push_back({what, to_int8(value)}); }
    void tell_client(std::uint64_t) {
      for (MirrorClient& client : s.clients)
        if (client.at == At::kPuts && client.gave_up) client.at = At::kIdle;
    }
  };

  // --- A client. ---

  void client_steps(const MirrorState& from, int c) {
    const MirrorClient& self = at(from, c);
    if (self.at == At::kDead) return;
    if (self.at == At::kIdle && self.request < sizes_.requests) {
      asks(from, c, At::kGets);
      asks(from, c, At::kPolls);
      if (sizes_.puts) asks(from, c, At::kArrives);
    }
    if (self.at == At::kIdle) finish(from, c);
    if (self.at != At::kIdle && !self.gave_up) give_up(from, c);
    if (self.at == At::kOffered) accept(from, c);
    if (from.deaths < sizes_.deaths) die(from, c);
  }

  void asks(MirrorState s, int c, At how) {
    MirrorClient& me = at(s, c);
    ++me.request;
    me.at = how;
    me.gave_up = false;
    Port port{s, *this};
    if (how == At::kArrives) {
      s.table.arrive(request_of(s, c));
    } else if (const auto id = s.table.get(port, request_of(s, c), how == At::kGets)) {
      if (mistake_ != MirrorMistake::kPollIsNotAsked) port.tell(Tell::kPoll, id);
    }
    enter(std::move(s));
  }
  void leases_arrive(MirrorState s, int c) {
    at(s, c).at = At::kPuts;
    if (const auto id = s.table.put(request_of(s, c)))
      s.to_home.push_back({Tell::kAsk, to_int8(id)});
    enter(std::move(s));
  }
  // A get that is given up ignores later messages. A put waits for its reply.
  void give_up(MirrorState s, int c) {
    MirrorClient& me = at(s, c);
    if (me.at == At::kPuts)
      me.gave_up = true;
    else if (me.at != At::kArrives)
      me.at = At::kIdle;
    Port port{s, *this};
    s.table.cancel(port, request_of(s, c), true);
    enter(std::move(s));
  }
  void accept(const MirrorState& from, int c) {
    for (const bool spoilt : {false, true}) {
      MirrorState s = from;
      MirrorClient& me = at(s, c);
      MirrorModelItem& item = s.items[static_cast<std::size_t>(me.item)];
      expect(item.truth == kFree, "an item is in two hands");
      item.truth = spoilt ? kItemLost : to_int8(c);
      me.at = At::kIdle;
      Port port{s, *this};
      if (spoilt)
        s.table.spoil(port, request_of(s, c));
      else
        s.table.take(port, request_of(s, c));
      enter(std::move(s));
    }
  }
  void finish(const MirrorState& from, int c) {
    for (int i = 0; i < sizes_.items; ++i) {
      const MirrorModelItem& item = from.items[static_cast<std::size_t>(i)];
      if (item.truth != c) continue;
      MirrorState s = from;
      s.items[static_cast<std::size_t>(i)].truth = kItemDone;
      Port port{s, *this};
      try {
        s.table.task_done(port, c, sizes_.redeliver ? static_cast<std::uint64_t>(item.tag) : 0);
      } catch (const Error&) {
        expect(false, "an item that a client took is not in its hand");
      }
      enter(std::move(s));
    }
  }
  void die(MirrorState s, int c) {
    ++s.deaths;
    at(s, c) = {At::kDead};
    for (MirrorModelItem& item : s.items)
      if (item.truth == c) item.truth = sizes_.redeliver ? kFree : kItemLost;
    Port port{s, *this};
    s.table.forget(port, c);
    enter(std::move(s));
  }

  // --- The bridge beside the mirror: messages of the home, and items for which no get waits. ---

  void bridge_steps(const MirrorState& from) {
    if (!from.to_mirror.empty()) {
      MirrorState s = from;
      const Told told = s.to_mirror.front();
      s.to_mirror.erase(s.to_mirror.begin());
      Port port{s, *this};
      const auto value = static_cast<std::uint64_t>(told.value);
      if (told.what == Tell::kItem) {
        int which = 0;
        while (s.items[static_cast<std::size_t>(which)].tag != told.value) ++which;
        s.table.offer(port, value, which);
      } else if (told.what == Tell::kOver) {
        const bool always = mistake_ == MirrorMistake::kOverAlways;
        s.table.end_gets(port, always ? std::nullopt : std::optional(value));
      } else {
        answer(s, port, value);
      }
      enter(std::move(s));
    }
    if (from.looks && mistake_ != MirrorMistake::kSurplusStays) {
      MirrorState s = from;
      s.looks = false;
      Port port{s, *this};
      for (const std::uint64_t tag : s.table.surplus())
        if (s.table.withdraw(port, tag)) port.tell(Tell::kRefused, tag);
      s.looks = false;
      enter(std::move(s));
    }
  }
  void answer(MirrorState& s, Port& port, std::uint64_t id) {
    if (s.table.end_poll(port, id, false)) return;
    const auto ended = s.table.end(id);
    if (!ended) return;
    MirrorClient& client = at(s, ended->from.client);
    expect(client.at == At::kPuts && ended->from == request_of(s, ended->from.client),
           "a put is answered twice");
    client.at = At::kIdle;
  }

  // --- The home, and its bridge. ---

  void home_steps(const MirrorState& from) {
    if (!from.to_home.empty()) {
      MirrorState s = from;
      const Told told = s.to_home.front();
      s.to_home.erase(s.to_home.begin());
      hear(s, told);
      enter(std::move(s));
    }
    int sent = 0;
    bool waits = false;
    for (int i = 0; i < sizes_.items; ++i) {
      const AtHome home = from.items[static_cast<std::size_t>(i)].home;
      sent += home == AtHome::kSent ? 1 : 0;
      waits |= home == AtHome::kWaits;
    }
    if (waits && sent < from.demand) send_item(from, -1);
    for (std::size_t i = 0; i < from.owed.size(); ++i) {
      if (waits && from.owed[i].what == Tell::kPoll) {
        send_item(from, static_cast<int>(i));
      } else {
        MirrorState s = from;
        answer_owed(s, i);
        enter(std::move(s));
      }
    }
    if (sizes_.ends && !waits && sent == 0 && from.demand > 0 && !from.said_over) {
      MirrorState s = from;
      s.said_over = true;
      s.to_mirror.push_back({Tell::kOver, s.died});
      enter(std::move(s));
    }
  }
  static void answer_owed(MirrorState& s, std::size_t which) {
    s.to_mirror.push_back({Tell::kAnswer, s.owed[which].value});
    s.owed.erase(s.owed.begin() + static_cast<std::ptrdiff_t>(which));
  }
  void send_item(MirrorState s, int poll) {
    for (int i = 0; i < sizes_.items; ++i) {
      MirrorModelItem& item = s.items[static_cast<std::size_t>(i)];
      if (item.home != AtHome::kWaits) continue;
      item.home = AtHome::kSent;
      item.tag = ++s.tags;
      s.to_mirror.push_back({Tell::kItem, item.tag});
      break;
    }
    if (poll >= 0) answer_owed(s, static_cast<std::size_t>(poll));
    enter(std::move(s));
  }

  void hear(MirrorState& s, const Told& told) {
    switch (told.what) {
      case Tell::kDemand:
        s.demand =
            to_int8(mistake_ == MirrorMistake::kDemandAddsUp ? s.demand + told.value : told.value);
        s.said_over = false;
        return;
      case Tell::kAsk:
      case Tell::kPoll:
        return s.owed.push_back(told);
      case Tell::kTaken:
        ++s.in_hand;
        return move(s, told.value, AtHome::kSent, AtHome::kTaken);
      case Tell::kSpoilt:
        return move(s, told.value, AtHome::kSent, AtHome::kGone);
      case Tell::kRefused:
        return move(
            s, told.value, AtHome::kSent,
            mistake_ == MirrorMistake::kWithdrawsWhatIsHeld ? AtHome::kGone : AtHome::kWaits);
      case Tell::kDone:
      case Tell::kDied:
        return end(s, told);
      default:
        return;
    }
  }
  void end(MirrorState& s, const Told& told) {
    if (!sizes_.redeliver) {
      s.in_hand = to_int8(s.in_hand - told.value);
      return expect(s.in_hand >= 0, "more items are done than were taken");
    }
    const bool died = told.what == Tell::kDied;
    if (died) ++s.died;
    move(s, told.value, AtHome::kTaken, died ? AtHome::kWaits : AtHome::kGone);
  }
  void move(MirrorState& s, int tag, AtHome before, AtHome after) {
    MirrorModelItem& item = item_of(s, tag);
    expect(item.home == before, "the home hears things in another order");
    item.home = after;
  }

  // --- All. ---

  // Checks a state in which nothing happens until a client takes a step.
  void at_rest(const MirrorState& s) {
    ++rests_;
    expect(s.owed.empty() && s.to_home.empty() && s.to_mirror.empty(), "a message is left");
    expect(s.table.surplus().empty(), "an item waits where nobody waits for it");
    std::int8_t waiting = 0;
    for (int c = 0; c < 2; ++c) {
      const MirrorClient& client = at(s, c);
      expect(client.at != At::kPolls && client.at != At::kPuts, "somebody waits in vain");
      expect(client.at != At::kGets || !sizes_.ends || may_come(s, c), "a get does not end");
      waiting = to_int8(waiting + (client.at == At::kGets ? 1 : 0));
    }
    expect(s.demand == waiting, "the home knows another demand");
    std::int8_t in_hand = 0;
    for (int i = 0; i < sizes_.items; ++i) {
      const MirrorModelItem& item = s.items[static_cast<std::size_t>(i)];
      in_hand = to_int8(in_hand + (item.truth >= 0 ? 1 : 0));
      if (item.truth == kFree)
        expect(item.home == AtHome::kWaits || (item.home == AtHome::kSent && is_offered(s, i)),
               "an item is lost that nobody got");
      else if (sizes_.redeliver)
        expect((item.home == AtHome::kTaken) == (item.truth >= 0), "the home counts wrongly");
    }
    expect(sizes_.redeliver || s.in_hand == in_hand, "the home counts wrongly");
  }
  static bool is_offered(const MirrorState& s, int item) {
    for (const MirrorClient& client : s.clients)
      if (client.at == At::kOffered && client.item == item) return true;
    return false;
  }

  void enter(MirrorState s) {
    moved_ = true;
    expect(!QueueTableState::somebody_waits_for_what_is_there(MirrorTableState::table_of(s.table)),
           "somebody waits for what is there");
    key_.clear();
    MirrorTableState::encode(s.table, key_);
    const auto put = [&](auto value) { key_.push_back(static_cast<char>(value)); };
    for (const MirrorClient& client : s.clients)
      put(client.at), put(client.request), put(client.item), put(client.tag), put(client.gave_up);
    for (const MirrorModelItem& item : s.items) put(item.truth), put(item.tag), put(item.home);
    for (const auto* line : {&s.to_home, &s.to_mirror, &s.owed}) {
      put(line->size());
      for (const Told& told : *line) put(told.what), put(told.value);
    }
    put(s.demand), put(s.died), put(s.tags), put(s.in_hand), put(s.deaths);
    put(s.said_over), put(s.looks);
    if (seen_.insert(key_).second) todo_.push_back(std::move(s));
  }
  void expect(bool holds, const char* what) {
    if (!holds && violation_.empty()) violation_ = what;
  }

  const MirrorSizes sizes_;
  const MirrorMistake mistake_;
  std::unordered_set<std::string> seen_;
  std::vector<MirrorState> todo_;
  std::string key_;  // the encoding of the state that is entered
  bool moved_ = false;
  std::size_t rests_ = 0;
  std::string violation_;
};

}  // namespace tensorbus::bus::testing
