#pragma once

// The state of the model of a queue: see queue_model.hpp.

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tensorbus/bus/queue/queue_table.hpp"

namespace tensorbus::bus::testing {

enum class ShutDown : std::uint8_t { kNever, kDrains, kDrops };

struct QueueSizes {
  std::vector<std::vector<int>> puts;  // the items of each producer, in order
  int getters = 2;
  int gets = 2;  // of each getter
  int maxsize = 0;
  bool redeliver = false;
  int deaths = 1;                         // maximum number of dead clients
  bool items_rest = false;                // items rest as soon as they are refused
  ShutDown shut_down = ShutDown::kNever;  // at any time, once
  bool give_back = false;                 // a getter may give back an item in its hand
  bool holds = false;                     // a getter passes an offered item on before it sends TAKE
  int ahead = 0;                          // maximum number of items lent in advance
  bool polls = false;                     // gets do not wait
  bool ender = false;  // a client waits for the end: drain() with `until_shut_down`
};

// Mistakes that the model must find; otherwise it proves nothing.
enum class QueueMistake {
  kNone,
  kOfferIsInHand,        // the server treats an item as accepted once the offer is sent
  kDoneOfAnyItem,        // task_done() does not name its item
  kDeathBeforeMessages,  // the server removes a client before it has read all its messages
  kLateOfferIsTaken,     // a getter that gave up takes an offer that comes later
  kCancelIsNotSent,      // a getter that gave up sends no CANCEL
  kOfferDiesWithGetter,  // items that were offered to a dead getter are dropped
  kReturnsTwice,         // the item of a cancelled offer goes back, and is put once more
  kGetBeforeTake,        // get() returns before TAKE is in the socket
  kCancelledPutArrives,  // a PUT is put although it is cancelled before its leases come
  kShutDownDrops,        // a shutdown drops waiting items that getters should get
  kGiveBackIsDone,       // an item that a getter gives back counts as done
  kHoldIsNotHeard,       // the server ignores that a getter passes offered items on
  kOverTooEarly,         // a getter gets "shut down" while an offered item may come back
  kClaimIsNotSeen,       // lent items that getters have taken are taken back, too
  kAheadOfAGet,          // a getter takes a lent item before the server reads its last GET
  kRoomIsNotSeen,        // takers that are collected with a take-back make no room
  kTakenByTheDead,       // the server removes a client before it has collected its items
  kEndTooEarly,          // an ender gets its reply while an offered item may come back
};

enum class Say : std::uint8_t { kPut, kGet, kPoll, kTake, kCancel, kTaskDone, kGiveBack, kEnd };
struct Message {
  Say say{};
  std::int8_t request = 0;
  std::int8_t item = 0;    // of kPut
  std::int8_t number = 0;  // of kTaskDone and kGiveBack
  bool operator==(const Message&) const = default;
};

// Messages in order, as in a socket.
struct Wire {
  static constexpr int kMax = 12;
  std::array<Message, kMax> messages{};
  std::int8_t count = 0;

  void push(const Message& message) { messages.at(static_cast<std::size_t>(count++)) = message; }
  Message pop() {
    const Message first = messages[0];
    for (int i = 1; i < count; ++i) messages[i - 1] = messages[i];
    messages[--count] = {};
    return first;
  }
};

enum class ClientAt : std::uint8_t {
  kIdle,
  kAsked,
  kOffered,
  kTaking,
  kCancelling,
  kDead,
  kForgotten
};
enum class Answered : std::uint8_t { kNot, kIn, kNotIn };

struct ModelItem {
  Answered put = Answered::kNot;
  std::int8_t holder = -1;  // the last client whose get() returned it
  std::int8_t number = 0;   // the number that the holder got
  bool done = false;        // the holder has sent kTaskDone
  bool passed = false;      // the holder has requested the next item
  bool lost = false;        // given back without `redeliver`
};

constexpr std::int8_t to_int8(auto value) { return static_cast<std::int8_t>(value); }

inline constexpr int kMaxItems = 4;
inline constexpr int kMaxClients = 4;

struct ModelClient {
  ClientAt at = ClientAt::kIdle;
  std::int8_t asked = 0;   // number of requests; the last one is under way
  std::int8_t item = -1;   // the item that it puts, or that it is offered
  std::int8_t number = 0;  // of the offer
  Wire to_server;
};

// An item that is lent in advance, until its taker is collected.
struct ModelAhead {
  std::int8_t item = 0;
  std::int8_t number = 0;
  std::int8_t taker = -1;
};

struct QueueState {
  QueueTable<int, int> table;
  std::array<ModelClient, kMaxClients> clients{};
  std::array<ModelItem, kMaxItems> items{};
  std::vector<std::pair<ClientRequest<int>, int>> arriving;  // their leases are being acquired
  std::int8_t deaths = 0;
  std::vector<ModelAhead> ahead{};
};

}  // namespace tensorbus::bus::testing

namespace tensorbus::bus {

// Gives the model access to a table.
struct QueueTableState {
  using Table = QueueTable<int, int>;

  static void encode(const Table& table, std::string& to) {
    const auto put = [&](auto value) { to.push_back(static_cast<char>(value)); };
    put(table.items_.last_number()), put(table.unfinished()), put(table.lost()),
        put(table.items_.waiting().size());
    for (const auto& [number, entry] : table.items_.waiting())
      put(number), put(entry.item), put(entry.rests_until > Table::Clock::time_point());
    for (const auto& [client, hands] : table.items_.clients()) {
      put(client), put(hands.holds), put(hands.finished_with), put(hands.offered.size()),
          put(hands.taken.size());
      for (const auto& [request, entry] : hands.offered)
        put(request), put(entry.item), put(entry.number);
      for (const auto& [number, entry] : hands.taken) put(number), put(entry.item);
    }
    put(table.end_), put(table.lent_ahead_);
    put(table.arriving_.size()), put(table.putters_.size());
    for (const auto& from : table.arriving_) put(from.from.client), put(from.from.number);
    for (const auto& from : table.putters_)
      put(from.from.client), put(from.from.number), put(from.item.begin()->second.item);
    for (const auto& from : table.getters_) put(from.client), put(from.number);
    put(table.enders_.size());
    for (const auto& from : table.enders_) put(from.client);
  }
  static bool somebody_waits_for_what_is_there(const Table& table) {
    return (!table.items_.waiting().empty() && !table.getters_.empty()) ||
           (!table.putters_.empty() && table.has_room_for(table.putters_.front()));
  }
  // Returns true if an item may still come to this getter. Otherwise, and only then, the getter
  // must get "shut down", and an ender its reply.
  static bool may_come(const Table& table, int client) {
    if (!table.items_.waiting().empty()) return true;
    if (table.end_ == Table::End::kAtOnce) return false;
    for (const auto& [other, hands] : table.items_.clients())
      if (!hands.offered.empty() ||
          (table.items_.redeliver() && other != client && !hands.taken.empty()))
        return true;
    return false;
  }
  static bool somebody_waits_in_vain(const Table& table) {
    if (!table.is_shut_down()) return false;
    for (const auto* waiting : {&table.getters_, &table.enders_})
      for (const auto& from : *waiting)
        if (!may_come(table, from.client)) return true;
    return !table.putters_.empty() || !table.arriving_.empty();
  }
  static std::size_t all(const Table& table) {
    std::size_t count = table.items_.waiting().size();
    for (const auto& [client, hands] : table.items_.clients())
      count += hands.offered.size() + hands.taken.size() + hands.finished_with;
    return count;
  }
  static int times_waiting(const Table& table, int item) {
    int times = 0;
    for (const auto& [number, entry] : table.items_.waiting()) times += entry.item == item ? 1 : 0;
    return times;
  }
  // Returns the lowest number in the client's hand; 0 if there is none.
  static std::uint64_t first_in_hand(const Table& table, int client) {
    const auto hands = table.items_.clients().find(client);
    const bool empty = hands == table.items_.clients().end() || hands->second.taken.empty();
    return empty ? 0 : hands->second.taken.begin()->first;
  }
  static std::vector<int> offered_items(const Table& table, int client) {
    std::vector<int> items;
    if (const auto hands = table.items_.clients().find(client);
        hands != table.items_.clients().end())
      for (const auto& [request, entry] : hands->second.offered) items.push_back(entry.item);
    return items;
  }
  static bool ender_waits(const Table& table) { return !table.enders_.empty(); }
  static bool any_waits(const Table& table) { return !table.items_.waiting().empty(); }
  static bool has_offers(const Table& table) { return table.items_.offered() != 0; }
  // Returns the requests of the client that have an offer.
  static std::vector<ClientRequest<int>> offers(const Table& table, int client) {
    std::vector<ClientRequest<int>> found;
    if (const auto hands = table.items_.clients().find(client);
        hands != table.items_.clients().end())
      for (const auto& [request, entry] : hands->second.offered)
        found.push_back({client, static_cast<std::uint32_t>(request)});
    return found;
  }
};

}  // namespace tensorbus::bus
