#pragma once

#include <algorithm>
#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "tensorbus/bus/queue/queue_table.hpp"

namespace tensorbus::bus {

// The local half of a mirror: a queue that represents a queue on another machine, its home
// (docs/internals/protocol.md, section 7, which lists the states). A QueueTable gives the items
// that the home has sent to local clients; the number of an item is the tag that the home gave it.
// Puts and calls are relayed: the home replies to each. The table sends no messages itself. It
// calls a `Port`, which has the functions that QueueTable needs, and the following functions, which
// notify the home, in order:
//
//   void demand(std::size_t gets);       waiting gets; also called if items wait and no get does
//   void cancelled(std::uint64_t id);    the client of this put or call gave up, or is dead
//   void taken(std::uint64_t tag);       a client accepted the item
//   void spoilt(std::uint64_t tag);      the memory of the item is gone
//   void done(std::uint64_t what);       task_done; `what`: the tag, or without `redeliver` a count
//   void died(std::uint64_t what);       the client died with this item, or this many, in its hand
//   void passed(std::uint64_t items);    without `redeliver`: a client finished with `items` items
//
// mirror_model.hpp tests this class. On the event loop only.
template <typename Client, typename Item>
class MirrorTable {
 public:
  using Table = QueueTable<Client, Item>;
  using Request = typename Table::Request;

  explicit MirrorTable(bool redeliver) : table_(0, redeliver), redeliver_(redeliver) {}

  const Table& table() const noexcept { return table_; }

  // Records a PUT. The caller calls put() when the item has come, or not_put() if it cannot come.
  void arrive(Request from) {
    require_room();
    arriving_.push_back(std::move(from));
  }
  // Returns the id of the put for the home; 0 if the client gave up in the meantime.
  std::uint64_t put(const Request& from) { return not_put(from) ? relay(from, 0) : 0; }
  bool not_put(const Request& from) noexcept { return drop(arriving_, from); }

  // Returns the id of the call for the home. end() later returns `what`.
  std::uint64_t call(Request from, std::uint32_t what) {
    require_room();
    return relay(std::move(from), what);
  }

  // Returns the id of the poll that the caller must send to the home; 0 if no poll is needed. A get
  // that does not wait needs a poll if no item waits here and one may still come.
  template <typename Port>
  std::uint64_t get(Port& port, Request from, bool waits) {
    if (const std::size_t items = table_.finish_with_taken(from.client)) port.passed(items);
    std::uint64_t id = 0;
    if (waits || table_.any_waits() || table_.is_over_for(from.client)) {
      table_.get(port, std::move(from), waits);
    } else {
      require_room();
      polls_.emplace(id = ++last_id_, std::move(from));
    }
    settle(port);
    return id;
  }

  // Ends a put, a call or a poll to which the home has replied, or which it has refused. Returns
  // its request; empty if the request was already replied to, or its client is dead.
  struct Ended {
    Request from;
    std::uint32_t what = 0;
  };
  std::optional<Ended> end(std::uint64_t id) {
    if (auto poll = polls_.extract(id)) return Ended{std::move(poll.mapped())};
    const auto found = relayed_.find(id);
    if (found == relayed_.end()) return std::nullopt;
    Ended ended{std::move(found->second.from), found->second.what};
    relayed_.erase(found);
    return ended;
  }
  // Ends the get of a poll. Called when the home has replied to the poll; if there was an item, the
  // home has sent it before. `over`: no more items will come. Returns false if `id` is no poll.
  template <typename Port>
  bool end_poll(Port& port, std::uint64_t id, bool over) {
    auto poll = polls_.extract(id);
    if (!poll) return false;
    if (over) table_.shut_down(port, false);
    table_.get(port, std::move(poll.mapped()), false);
    settle(port);
    return true;
  }

  // Adds an item. Throws Error(kInvalidArgument) if an item with this tag is already waiting.
  template <typename Port>
  void offer(Port& port, std::uint64_t tag, Item item) {
    table_.add(port, tag, std::move(item));
    settle(port);
  }
  // Removes a waiting item. Returns false if the item does not wait.
  template <typename Port>
  bool withdraw(Port& port, std::uint64_t tag) {
    const bool waited = table_.remove(port, tag);
    settle(port);
    return waited;
  }
  // Returns the tags of the waiting items if no get waits, the latest first.
  std::vector<std::uint64_t> surplus() const {
    return table_.waiting_gets() == 0 ? table_.waiting() : std::vector<std::uint64_t>();
  }
  // Called when the home has no more items for any client: gets end when no item is left here. An
  // item in the hand of a client that died may come again. So the call does nothing if the home had
  // not been notified of all these items. `died`: the number of these items of which the home had
  // been notified; empty: all.
  template <typename Port>
  void end_gets(Port& port, std::optional<std::uint64_t> died) {
    if (died.value_or(died_) != died_) return;
    table_.shut_down(port, false);
    settle(port);
  }

  template <typename Port>
  void take(Port& port, const Request& get) {
    if (const std::uint64_t tag = table_.take(port, get, false)) port.taken(tag);
    settle(port);
  }
  template <typename Port>
  void spoil(Port& port, const Request& get) {
    if (const std::uint64_t tag = table_.spoil(port, get)) port.spoilt(tag);
    settle(port);
  }
  // Throws Error(kInvalidArgument) like QueueTable::task_done().
  template <typename Port>
  void task_done(Port& port, const Client& client, std::uint64_t number) {
    table_.task_done(port, client, number);
    port.done(named(number));
    settle(port);
  }

  // Cancels a request. An offered item waits again. A put or a call waits for the home's reply.
  template <typename Port>
  void cancel(Port& port, const Request& request, bool read) {
    const auto relayed = std::ranges::find_if(relayed_, [&](const auto& one) {
      return one.second.from == request && !one.second.cancelled;
    });
    if (not_put(request) || drop_poll(request)) {
      port.timed_out(request);
    } else if (relayed != relayed_.end()) {
      relayed->second.cancelled = true;
      port.cancelled(relayed->first);
    } else {
      table_.cancel(port, request, read);
    }
    settle(port);
  }

  // Removes a client that is dead or has hung up, after all its messages.
  template <typename Port>
  void forget(Port& port, const Client& client) {
    const auto is_its = [&](const Request& from) { return from.client == client; };
    arriving_.remove_if(is_its);
    std::erase_if(polls_, [&](const auto& poll) { return is_its(poll.second); });
    std::erase_if(relayed_, [&](const auto& relayed) {
      const bool dead = is_its(relayed.second.from);
      if (dead && !relayed.second.cancelled) port.cancelled(relayed.first);
      return dead;
    });
    forget_in_hand(port, client);
    table_.forget(port, client);
    settle(port);
  }

  // Denies all waiting requests and drops all items.
  template <typename Port>
  void close(Port& port, const Error& why) {
    for (const Request& from : std::exchange(arriving_, {})) port.deny(from, why);
    for (const auto& [id, from] : std::exchange(polls_, {})) port.deny(from, why);
    for (const auto& [id, relayed] : std::exchange(relayed_, {})) port.deny(relayed.from, why);
    table_.close(port, why);
  }

 private:
  friend struct MirrorTableState;  // for mirror_model.hpp

  struct Relayed {
    Request from;
    std::uint32_t what = 0;
    bool cancelled = false;
  };

  static bool drop(std::list<Request>& requests, const Request& request) {
    const auto found = std::ranges::find(requests, request);
    if (found == requests.end()) return false;
    requests.erase(found);
    return true;
  }
  bool drop_poll(const Request& request) {
    const auto found = std::ranges::find(polls_, request, &Polls::value_type::second);
    if (found == polls_.end()) return false;
    polls_.erase(found);
    return true;
  }

  // Bounds the memory that requests can take.
  void require_room() const {
    Table::require_room_to_wait(arriving_.size() + relayed_.size() + polls_.size());
  }
  std::uint64_t relay(Request from, std::uint32_t what) {
    relayed_.emplace(++last_id_, Relayed{std::move(from), what});
    return last_id_;
  }
  std::uint64_t named(std::uint64_t number) const noexcept {
    return redeliver_ ? number : std::max<std::uint64_t>(number, 1);
  }

  template <typename Port>
  void forget_in_hand(Port& port, const Client& client) {
    const auto removed = table_.remove_in_hand(client);
    if (!redeliver_) {
      if (!removed.items.empty()) port.died(removed.items.size());
      if (removed.finished_with != 0) port.done(removed.finished_with);
    } else if (!removed.items.empty()) {
      for (const std::uint64_t tag : removed.items) port.died(tag);
      expect_again(removed.items.size());
    }
  }
  // Called when items return to the home: they may come again.
  void expect_again(std::size_t items) noexcept {
    died_ += items;
    table_.reopen();
    notify_again_ = true;
  }

  // Afterwards no item waits together with a poll, no poll waits for an item that cannot come, and
  // the home has been notified of the number of waiting gets.
  template <typename Port>
  void settle(Port& port) {
    for (auto at = polls_.begin(); at != polls_.end();) {
      const auto poll = at++;
      if (!table_.any_waits() && !table_.is_over_for(poll->second.client)) continue;
      table_.get(port, std::move(polls_.extract(poll).mapped()), false);
    }
    const std::size_t gets = table_.waiting_gets();
    if (gets == notified_ && !notify_again_ && (gets != 0 || !table_.any_waits())) return;
    notify_again_ = false;
    port.demand(notified_ = gets);
  }

  using Polls = std::map<std::uint64_t, Request>;

  Table table_;
  bool redeliver_;
  std::list<Request> arriving_;               // PUTs whose leases are being acquired
  std::map<std::uint64_t, Relayed> relayed_;  // puts and calls to which the home has not replied
  Polls polls_;                               // gets that do not wait, and have no item yet
  std::uint64_t last_id_ = 0;
  std::uint64_t died_ = 0;    // with `redeliver`: items that were in the hand of dead clients
  std::size_t notified_ = 0;  // the demand of which the home was notified
  bool notify_again_ = false;
};

}  // namespace tensorbus::bus
