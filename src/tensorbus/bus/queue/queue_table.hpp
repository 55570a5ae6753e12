#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <list>
#include <map>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "tensorbus/platform/error.hpp"

namespace tensorbus::bus {

// How long a client keeps an offer before it refuses it, and how long an item is offered before
// others pass it: the owner of the item's memory may be stopped.
inline constexpr std::chrono::milliseconds kOfferPatience{100};

// Identifies a client's request to a queue.
template <typename Client>
struct ClientRequest {
  Client client{};
  std::uint32_t number = 0;  // chosen by the client
  bool operator==(const ClientRequest&) const = default;
};

// The items of one queue and the requests that wait for them (docs/protocol.md, section 7, which
// lists the states and transitions). The map that holds the node of an item is the state of the
// item. Nodes move from map to map: put() and get() allocate, other transitions do not. The table
// sends nothing itself: it calls a `Port`. On the event loop only.
//
//   void offer(const Request&, const Item&, std::uint64_t number);  throws Error: it was not sent
//   void done(const Request&);                                      these may throw std::bad_alloc
//   void timed_out(const Request&);
//   void shut_down(const Request&);
//   void deny(const Request&, const Error&);
//   Clock::time_point now();
//
// queue_model.hpp tests this class with clients that do everything in every order.
template <typename Client, typename Item>
class QueueTable {
 public:
  using Request = ClientRequest<Client>;
  using Clock = std::chrono::steady_clock;

  // `maxsize` and `max_bytes` 0: no limit. `patience`: how long an item is offered and refused
  // before others pass it.
  QueueTable(std::size_t maxsize, bool redeliver, Clock::duration patience = kOfferPatience,
             std::uint64_t max_bytes = 0)
      : maxsize_(maxsize), max_bytes_(max_bytes), redeliver_(redeliver), patience_(patience) {}

  std::size_t items() const noexcept { return waiting_.size() + offered_; }
  // Of these items.
  std::uint64_t bytes() const noexcept { return bytes_; }
  std::uint64_t unfinished() const noexcept { return unfinished_; }
  std::uint64_t lost() const noexcept { return lost_; }
  // Items that came back from clients that died, or that gave them back.
  std::uint64_t redelivered() const noexcept { return redelivered_; }
  // What each client has in hand, and how many of its calls wait.
  struct ClientUse {
    std::size_t in_hand = 0;
    std::uint32_t waiting_puts = 0;
    std::uint32_t waiting_gets = 0;
  };
  std::map<Client, ClientUse> clients() const {
    std::map<Client, ClientUse> all;
    for (const auto& [client, hands] : clients_) all[client].in_hand = hands.taken.size();
    for (const Putter& putter : putters_) ++all[putter.from.client].waiting_puts;
    for (const Request& getter : getters_) ++all[getter.client].waiting_gets;
    return all;
  }
  bool is_shut_down() const noexcept { return end_ != End::kNone; }
  // Returns how many clients other than this one have asked for items, and live.
  std::size_t getters_besides(const Client& client) const {
    return clients_.size() - clients_.count(client);
  }
  bool has_asked(const Client& client) const { return clients_.contains(client); }
  std::size_t waiting_gets() const noexcept { return getters_.size(); }
  bool any_waits() const noexcept { return !waiting_.empty(); }
  // Returns true if nothing more can come to this client.
  bool is_over_for(const Client& client) const { return is_shut_down() && is_drained_for(client); }

  // Bounds the memory that waiting requests can take.
  static void require_room_to_wait(std::size_t waiting) {
    if (waiting >= 65'536)
      throw Error(Code::kOutOfMemory, "more than 65,536 calls wait for this queue already");
  }

  // Records a PUT; put() or not_put() follows when its item has come, or cannot come. Returns false
  // if the queue is shut down: nothing follows.
  template <typename Port>
  bool arrive(Port& port, Request from, bool waits) {
    if (is_shut_down()) {
      port.shut_down(from);
      return false;
    }
    require_room_to_wait(arriving_.size() + putters_.size());
    arriving_.push_back({std::move(from), waits, {}});
    return true;
  }
  // Returns false if the PUT was cancelled meanwhile, or the queue shut down.
  template <typename Port>
  bool put(Port& port, const Request& from, Item item, std::uint64_t bytes = 0) {
    const auto putter = find(arriving_, from);
    if (putter == arriving_.end()) return false;
    if (max_bytes_ != 0 && bytes > max_bytes_) {
      arriving_.erase(putter);
      port.deny(from, never_fits(bytes));
      return true;
    }
    putter->item.emplace(0, Entry{.item = std::move(item), .bytes = bytes});
    if (!putter->waits && (!putters_.empty() || !has_room_for(*putter))) {
      arriving_.erase(putter);
      port.timed_out(from);
    } else {
      putters_.splice(putters_.end(), arriving_, putter);
      settle(port);
    }
    return true;
  }
  // Returns false if the PUT has been answered meanwhile.
  bool not_put(const Request& from) noexcept {
    const auto putter = find(arriving_, from);
    if (putter == arriving_.end()) return false;
    arriving_.erase(putter);
    return true;
  }

  // Room for items that producers may put without asking (put_rings.hpp): how many were promised
  // and have not been entered, and how many more may be.
  std::size_t promised() const noexcept { return promised_; }
  void set_promised(std::size_t items) noexcept { promised_ = items; }
  std::size_t room_to_promise() const noexcept {
    if (is_shut_down() || !putters_.empty() || max_bytes_ != 0) return 0;
    if (maxsize_ == 0) return std::numeric_limits<std::size_t>::max();
    const std::size_t used = items() + promised_;
    return used < maxsize_ ? maxsize_ - used : 0;
  }
  // Returns true if a PUT would get room now, whatever else waits.
  bool has_room() const noexcept { return maxsize_ == 0 || items() + promised_ < maxsize_; }
  // Adds an item for which room was promised. The caller calls look_again() afterwards.
  void enter(Item item, std::uint64_t bytes) {
    add_last(Entry{.item = std::move(item), .bytes = bytes});
    --promised_;
  }
  template <typename Port>
  void look_again(Port& port) {
    settle(port);
  }
  // Adds an item if no PUT waits and there is room: returns false if not.
  template <typename Port>
  bool put_now(Port& port, Item item, std::uint64_t bytes) {
    if (room_to_promise() == 0) return false;
    add_last(Entry{.item = std::move(item), .bytes = bytes});
    settle(port);
    return true;
  }
  // Gives the client the oldest item at once, if nobody else waits for one and none may come back
  // before it. Calls read(item) first: it is taken if that returns true. Returns its number, 0 if
  // it was not taken. `keeps`: as of take().
  template <typename Port, typename Read>
  std::uint64_t take_now(Port& port, const Client& client, const Read& read) {
    if (waiting_.empty() || !getters_.empty() || offered_ != 0) return 0;
    const auto first = waiting_.begin();
    if (first->second.offered_for != Clock::duration{}) return 0;
    finish_with_taken(client);
    if (!read(first->second.item)) return 0;
    Node item = waiting_.extract(first);
    bytes_ -= item.mapped().bytes;
    if (!redeliver_) item.mapped().item = Item{};
    const std::uint64_t number = item.key();
    clients_.find(client)->second.taken.insert(std::move(item));
    settle(port);
    return number;
  }

  // `holds`: others may see an item that the client was offered, before it takes the item. Without
  // `redeliver` such items are lost with the client: nobody else may get them.
  template <typename Port>
  void get(Port& port, Request from, bool waits, bool holds = false) {
    require_room_to_wait(getters_.size());
    finish_with_taken(from.client);
    if (holds) clients_[from.client].holds = true;
    if (waiting_.empty() && !waits)
      return is_over_for(from.client) ? port.shut_down(from) : port.timed_out(from);
    getters_.push_back(std::move(from));
    settle(port);
  }

  // Notes that the client asks for an item. Returns how many items it is finished with by that.
  std::size_t finish_with_taken(const Client& client) {
    Hands& hands = clients_[client];
    if (redeliver_) return 0;
    const std::size_t finished = hands.taken.size();
    hands.finished_with += finished;
    hands.taken.clear();
    return finished;
  }

  // Gives a client the item that it was offered. Returns the item's number, 0 if this GET was
  // offered none. `keeps`: the item may come back by itself.
  template <typename Port>
  std::uint64_t take(Port& port, const Request& get, bool keeps = true) {
    auto [item, hands] = extract_offered(get);
    if (!item) return 0;
    const std::uint64_t number = item.key() = item.mapped().number;
    bytes_ -= item.mapped().bytes;
    if (!redeliver_ || !keeps) item.mapped().item = Item{};
    hands->taken.insert(std::move(item));
    settle(port);
    return number;
  }
  // Drops an offered item whose memory is gone. Returns its number, 0 if there is none.
  template <typename Port>
  std::uint64_t spoil(Port& port, const Request& get) {
    const Node item = extract_offered(get).first;
    if (!item) return 0;
    bytes_ -= item.mapped().bytes;
    lose(1);
    settle(port);
    return item.mapped().number;
  }

  // Ends the work on the item of this number that the client took; without `redeliver`, on so many
  // items (0: one). Throws Error(kInvalidArgument) if it has not so many.
  template <typename Port>
  void task_done(Port& port, const Client& client, std::uint64_t number) {
    Hands& hands = hands_of(client);
    if (redeliver_) {
      if (hands.taken.erase(number) == 0) refuse_item();
      --unfinished_;
    } else {
      unfinished_ -= remove_unnamed(hands, number);
    }
    settle(port);
  }
  // Takes what the client has in hand away, as if it had died with it: with `redeliver` the item of
  // this number waits again; without, so many items (0: one) are lost. Throws as task_done().
  template <typename Port>
  void give_back(Port& port, const Client& client, std::uint64_t number) {
    Hands& hands = hands_of(client);
    if (redeliver_) {
      Node item = hands.taken.extract(number);
      if (!item) refuse_item();
      bytes_ += item.mapped().bytes;
      ++redelivered_;
      wait_again(std::move(item));
    } else {
      lose(remove_unnamed(hands, number));
    }
    settle(port);
  }

  template <typename Port>
  void join(Port& port, Request from) {
    require_room_to_wait(joiners_.size());
    joiners_.push_back(std::move(from));
    settle(port);
  }

  // Answers when nothing is left for other clients: no item waits or may come back.
  template <typename Port>
  void drain(Port& port, Request from) {
    require_room_to_wait(drainers_.size());
    drainers_.push_back(std::move(from));
    settle(port);
  }

  // Lets nothing more in, and ends all gets when nothing is left for them. `immediate`: drops what
  // waits, and what comes back from now on.
  template <typename Port>
  void shut_down(Port& port, bool immediate) {
    if (end_ != End::kAtOnce) end_ = immediate ? End::kAtOnce : End::kDrained;
    settle(port);
  }

  // Answers a request that waits; an offered item goes back to its place. `read`: its client could
  // read it, so that it need not rest.
  template <typename Port>
  void cancel(Port& port, const Request& request, bool read = false) {
    if (auto [item, hands] = extract_offered(request); item) {
      Entry& entry = item.mapped();
      if (!read && (entry.offered_for += port.now() - entry.offered_at) >= patience_)
        entry.rests_until = port.now() + kRests * patience_ + kTick;
      wait_again(std::move(item));
      return settle(port);
    }
    const bool waited = drop(getters_, request) || drop(joiners_, request) ||
                        drop(drainers_, request) || drop(putters_, request) ||
                        drop(arriving_, request);
    if (waited) port.timed_out(request);
  }

  // Removes a client that is dead or has hung up, after all its messages.
  template <typename Port>
  void forget(Port& port, const Client& client) {
    for (auto* waiting : {&getters_, &joiners_, &drainers_})
      waiting->remove_if([&](const Request& from) { return from.client == client; });
    const auto is_its = [&](const Putter& putter) { return putter.from.client == client; };
    putters_.remove_if(is_its);
    arriving_.remove_if(is_its);
    auto left = clients_.extract(client);
    if (left) {
      Hands& hands = left.mapped();
      const bool is_lost = hands.holds && !redeliver_;
      while (!hands.offered.empty()) {
        --offered_;
        Node item = hands.offered.extract(hands.offered.begin());
        if (!is_lost) {
          wait_again(std::move(item));
          continue;
        }
        bytes_ -= item.mapped().bytes;
        lose(1);
      }
      if (redeliver_) {
        for (const auto& [number, entry] : hands.taken) bytes_ += entry.bytes;
        redelivered_ += hands.taken.size();
        waiting_.merge(hands.taken);
      } else {
        lose(hands.taken.size());
      }
      unfinished_ -= hands.finished_with;
    }
    settle(port);
  }

  // For a mirror (mirror_table.hpp): adds an item under its number, without a PUT.
  template <typename Port>
  void add(Port& port, std::uint64_t number, Item item) {
    if (!waiting_.try_emplace(number, Entry{.item = std::move(item), .number = number}).second)
      throw Error(Code::kInvalidArgument, "item " + std::to_string(number) + " waits already");
    ++unfinished_;
    settle(port);
  }
  // Removes an item that waits. Returns false if none of this number does.
  template <typename Port>
  bool remove(Port& port, std::uint64_t number) {
    if (waiting_.erase(number) == 0) return false;
    --unfinished_;
    settle(port);
    return true;
  }
  // Returns the numbers of the items that wait, the latest first.
  std::vector<std::uint64_t> waiting() const {
    std::vector<std::uint64_t> numbers;
    for (auto item = waiting_.rbegin(); item != waiting_.rend(); ++item)
      numbers.push_back(item->first);
    return numbers;
  }
  // Removes what the client has in hand, before it is forgotten.
  struct InHand {
    std::vector<std::uint64_t> items;
    std::uint64_t finished_with = 0;
  };
  InHand remove_in_hand(const Client& client) {
    InHand removed;
    const auto found = clients_.find(client);
    if (found == clients_.end()) return removed;
    Hands& hands = found->second;
    for (const auto& [number, entry] : hands.taken) removed.items.push_back(number);
    hands.taken.clear();
    removed.finished_with = std::exchange(hands.finished_with, 0);
    unfinished_ -= removed.items.size() + removed.finished_with;
    return removed;
  }
  // Lets items in again after shut_down().
  void reopen() noexcept { end_ = End::kNone; }

  // Denies all waiting requests and drops all items.
  template <typename Port>
  void close(Port& port, const Error& why) {
    for (const auto* waiting : {&getters_, &joiners_, &drainers_})
      for (const Request& request : *waiting) port.deny(request, why);
    for (const auto* waiting : {&putters_, &arriving_})
      for (const Putter& putter : *waiting) port.deny(putter.from, why);
    *this = QueueTable(maxsize_, redeliver_, patience_, max_bytes_);
  }

 private:
  friend struct QueueTableState;  // for queue_model.hpp

  // If the owner of an item's memory is stopped, every client refuses the item after a while. The
  // item then rests, so that clients get the items behind it.
  static constexpr Clock::duration kTick{1};
  static constexpr int kRests = 10;  // times the patience

  enum class End { kNone, kDrained, kAtOnce };  // how the queue was shut down

  struct Entry {
    Item item;
    std::uint64_t bytes = 0;
    std::uint64_t number = 0;
    Clock::time_point offered_at{};
    Clock::duration offered_for{};  // to clients that refused it
    Clock::time_point rests_until{};
  };
  using Items = std::map<std::uint64_t, Entry>;  // by number
  using Node = typename Items::node_type;
  using Offers = std::multimap<std::uint64_t, Entry>;  // by request, which a client may use twice

  // The items of one client, from its first GET to its end.
  struct Hands {
    Offers offered;
    Items taken;
    std::uint64_t finished_with = 0;  // taken before the last GET, not done; without `redeliver`
    bool holds = false;               // others may see what it was offered
  };
  struct Putter {
    Request from;
    bool waits = false;  // for room
    Items item;          // empty: the item has not come yet
  };

  [[noreturn]] static void refuse_item() {
    throw Error(Code::kInvalidArgument, "task_done() of an item that this process does not have");
  }
  Hands& hands_of(const Client& client) {
    const auto found = clients_.find(client);
    if (found == clients_.end()) refuse_item();
    return found->second;
  }
  // Removes items of a queue without `redeliver`, those that were finished with first.
  static std::uint64_t remove_unnamed(Hands& hands, std::uint64_t number) {
    const std::uint64_t count = std::max<std::uint64_t>(number, 1);
    const std::uint64_t finished = std::min(count, hands.finished_with);
    if (count - finished > hands.taken.size()) refuse_item();
    hands.finished_with -= finished;
    const auto first = hands.taken.begin();
    hands.taken.erase(first, std::next(first, static_cast<std::ptrdiff_t>(count - finished)));
    return count;
  }

  static auto find(std::list<Putter>& putters, const Request& request) noexcept {
    auto at = putters.begin();
    while (at != putters.end() && at->from != request) ++at;
    return at;
  }
  static bool drop(std::list<Request>& waiting, const Request& request) {
    return waiting.remove(request) != 0;
  }
  static bool drop(std::list<Putter>& putters, const Request& request) {
    return putters.remove_if([&](const Putter& putter) { return putter.from == request; }) != 0;
  }

  Error never_fits(std::uint64_t bytes) const {
    return {Code::kInvalidArgument,
            "an item of " + std::to_string(bytes) +
                " bytes never fits into this queue of max_bytes=" + std::to_string(max_bytes_)};
  }

  bool has_room_for(const Putter& putter) const noexcept {
    const std::uint64_t bytes = putter.item.begin()->second.bytes;
    return has_room() &&
           (max_bytes_ == 0 || (bytes <= max_bytes_ && bytes_ <= max_bytes_ - bytes));
  }

  // Returns true if no item waits for other clients than this one, or may come back to them.
  bool is_drained_for(const Client& client) const {
    if (!waiting_.empty()) return false;
    if (end_ == End::kAtOnce) return true;
    return offered_ == 0 && (!redeliver_ || std::ranges::all_of(clients_, [&](const auto& other) {
             return other.first == client || other.second.taken.empty();
           }));
  }

  std::pair<Node, Hands*> extract_offered(const Request& get) noexcept {
    const auto client = clients_.find(get.client);
    if (client == clients_.end()) return {};
    Offers& offered = client->second.offered;
    const auto found = offered.find(get.number);
    if (found == offered.end()) return {};
    --offered_;
    return {offered.extract(found), &client->second};
  }
  void wait_again(Node item) noexcept {
    item.key() = item.mapped().number;
    waiting_.insert(std::move(item));
  }

  void lose(std::uint64_t items) noexcept {
    lost_ += items;
    unfinished_ -= items;
  }

  void add_last(Entry entry) {
    entry.number = last_number_ + 1;
    bytes_ += entry.bytes;
    try {
      waiting_.emplace_hint(waiting_.end(), entry.number, std::move(entry));
    } catch (...) {
      bytes_ -= entry.bytes;
      throw;
    }
    ++last_number_;
    ++unfinished_;
  }

  // Invariants 8 and 13: afterwards no request waits for an item or for room that is there. A
  // request that cannot be answered because memory is short waits until the next message of any
  // client.
  template <typename Port>
  void settle(Port& port) {
    try {
      if (end_ == End::kAtOnce) drop_waiting();
      if (is_shut_down()) refuse_puts(port);
      while (!putters_.empty() && has_room_for(putters_.front())) admit(port);
      while (!getters_.empty() && !waiting_.empty()) deal(port);
      for (; unfinished_ == 0 && !joiners_.empty(); joiners_.pop_front())
        port.done(joiners_.front());
      if (is_shut_down()) answer(getters_, [&](const Request& from) { port.shut_down(from); });
      answer(drainers_, [&](const Request& from) { port.done(from); });
    } catch (const std::bad_alloc&) {
    }
  }

  // Answers those requests for whose clients nothing is left.
  template <typename Tell>
  void answer(std::list<Request>& waiting, Tell tell) {
    for (auto at = waiting.begin(); at != waiting.end();) {
      const auto from = at++;
      if (!is_drained_for(from->client)) continue;
      tell(*from);
      waiting.erase(from);
    }
  }

  template <typename Port>
  void refuse_puts(Port& port) {
    for (auto* refused : {&putters_, &arriving_})
      for (; !refused->empty(); refused->pop_front()) port.shut_down(refused->front().from);
  }

  void drop_waiting() noexcept {
    for (const auto& [number, entry] : waiting_) bytes_ -= entry.bytes;
    unfinished_ -= waiting_.size();
    waiting_.clear();
  }

  template <typename Port>
  void admit(Port& port) {
    Putter& putter = putters_.front();
    port.done(putter.from);
    Node item = putter.item.extract(putter.item.begin());
    putters_.pop_front();
    item.mapped().number = ++last_number_;
    bytes_ += item.mapped().bytes;
    wait_again(std::move(item));
    ++unfinished_;
  }

  // Returns the oldest item that does not rest, or the oldest if all rest.
  typename Items::iterator next_item(Clock::time_point now) noexcept {
    const auto found = std::find_if(waiting_.begin(), waiting_.end(), [&](const auto& item) {
      return item.second.rests_until <= now;
    });
    return found == waiting_.end() ? waiting_.begin() : found;
  }

  // Offers the next item to the client that has waited longest. An item that cannot be lent stays,
  // and that client gets the Error. If the item's memory is gone (kClosed), the item is lost.
  template <typename Port>
  void deal(Port& port) {
    const auto next = next_item(port.now());
    const Request& to = getters_.front();
    try {
      port.offer(to, next->second.item, redeliver_ ? next->first : 0);
    } catch (const Error& error) {
      port.deny(to, error);
      getters_.pop_front();
      if (error.code() != Code::kClosed) return;
      bytes_ -= next->second.bytes;
      waiting_.erase(next);
      return lose(1);
    }
    Node item = waiting_.extract(next);
    item.key() = to.number;
    item.mapped().offered_at = port.now();
    clients_.find(to.client)->second.offered.insert(std::move(item));
    ++offered_;
    getters_.pop_front();
  }

  std::size_t maxsize_;
  std::uint64_t max_bytes_;
  bool redeliver_;
  Clock::duration patience_;
  Items waiting_;
  std::map<Client, Hands> clients_;
  std::size_t offered_ = 0;   // to all clients
  std::size_t promised_ = 0;  // room that producers may use without asking
  std::uint64_t bytes_ = 0;  // of waiting and offered items
  End end_ = End::kNone;
  std::uint64_t last_number_ = 0;
  std::uint64_t unfinished_ = 0;
  std::uint64_t lost_ = 0;
  std::uint64_t redelivered_ = 0;
  std::list<Putter> arriving_;
  std::list<Putter> putters_;  // in the order in which they get room
  std::list<Request> getters_;
  std::list<Request> joiners_;
  std::list<Request> drainers_;
};

}  // namespace tensorbus::bus
