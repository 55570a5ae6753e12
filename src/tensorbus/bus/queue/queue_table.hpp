#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <list>
#include <map>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "tensorbus/bus/queue/queue_items.hpp"
#include "tensorbus/platform/error.hpp"

namespace tensorbus::bus {

// Interval at which a client checks whether an owner of an offered item's memory is stopped: if so,
// the client refuses the offer. Also the total time of refused offers after which other items pass
// an item.
inline constexpr std::chrono::milliseconds kOfferPatience{100};

// The items of one queue and the requests that wait for them (docs/internals/protocol.md, section
// 7, which lists the states and transitions). QueueItems holds the items by state; this class
// decides when they move. Adding items, requests and clients allocates memory; other transitions do
// not. The table sends no messages itself: it calls a `Port`. On the event loop only.
//
//   void offer(const Request&, const Item&, std::uint64_t number);  throws Error if it was not sent
//   void done(const Request&);                                      these may throw std::bad_alloc
//   void timed_out(const Request&);
//   void shut_down(const Request&);
//   void deny(const Request&, const Error&);
//   Clock::time_point now();
//
// queue_model.hpp tests this class with every order of its clients' steps.
template <typename Client, typename Item>
class QueueTable {
 public:
  using Request = ClientRequest<Client>;
  using States = QueueItems<Client, Item>;
  using Clock = std::chrono::steady_clock;

  // `maxsize` and `max_bytes`: 0 for no limit. `patience`: total time of refused offers after which
  // other items pass an item.
  QueueTable(std::size_t maxsize, bool redeliver, Clock::duration patience = kOfferPatience,
             std::uint64_t max_bytes = 0)
      : maxsize_(maxsize), max_bytes_(max_bytes), patience_(patience), items_(redeliver) {}

  // Returns the number of waiting and offered items.
  std::size_t items() const noexcept { return items_.count(); }
  // Returns the bytes of the same items.
  std::uint64_t bytes() const noexcept { return items_.bytes(); }
  std::uint64_t unfinished() const noexcept { return items_.unfinished(); }
  std::uint64_t lost() const noexcept { return items_.lost(); }
  // Returns the number of items that came back from dead clients, or were given back.
  std::uint64_t redelivered() const noexcept { return items_.redelivered(); }
  // A client's numbers of items in hand, and of waiting calls.
  struct ClientUse {
    std::size_t in_hand = 0;
    std::uint32_t waiting_puts = 0;
    std::uint32_t waiting_gets = 0;
  };
  std::map<Client, ClientUse> clients() const {
    std::map<Client, ClientUse> all;
    for (const auto& [client, hands] : items_.clients()) all[client].in_hand = hands.taken.size();
    for (const Putter& putter : putters_) ++all[putter.from.client].waiting_puts;
    for (const Request& getter : getters_) ++all[getter.client].waiting_gets;
    return all;
  }
  bool is_shut_down() const noexcept { return end_ != End::kNone; }
  // Returns the number of live clients, except this one, that have requested items.
  std::size_t getters_besides(const Client& client) const {
    return items_.clients().size() - items_.clients().count(client);
  }
  bool has_asked(const Client& client) const { return items_.clients().contains(client); }
  std::size_t waiting_gets() const noexcept { return getters_.size(); }
  // Returns true if a PUT or a drain waits until the queue has fewer items.
  bool waits_for_takes() const noexcept {
    return !putters_.empty() || !drainers_.empty() || (is_shut_down() && !enders_.empty());
  }
  bool any_waits() const noexcept { return !items_.waiting().empty(); }
  // Returns true if no more items can come to this client.
  bool is_over_for(const Client& client) const { return is_shut_down() && is_drained_for(client); }

  // Bounds the memory that waiting requests can take.
  static void require_room_to_wait(std::size_t waiting) {
    if (waiting >= 65'536)
      throw Error(Code::kOutOfMemory, "more than 65,536 calls are already waiting for this queue");
  }

  // Records a PUT. The caller calls put() when the item has come, or not_put() if it cannot come.
  // Returns false if the queue is shut down: the caller then calls neither.
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
  // Returns false if the PUT was cancelled, or the queue shut down, in the meantime.
  template <typename Port>
  bool put(Port& port, const Request& from, Item item, std::uint64_t bytes = 0) {
    const auto putter = find(arriving_, from);
    if (putter == arriving_.end()) return false;
    if (max_bytes_ != 0 && bytes > max_bytes_) {
      arriving_.erase(putter);
      port.deny(from, Error(Code::kInvalidArgument, "an item of " + std::to_string(bytes) +
                                                        " bytes never fits into this "
                                                        "queue of max_bytes=" +
                                                        std::to_string(max_bytes_)));
      return true;
    }
    putter->item.emplace(0, typename States::Entry{.item = std::move(item), .bytes = bytes});
    if (!putter->waits && (!putters_.empty() || !has_room_for(*putter))) {
      arriving_.erase(putter);
      port.timed_out(from);
    } else {
      putters_.splice(putters_.end(), arriving_, putter);
      settle(port);
    }
    return true;
  }
  // Returns false if the PUT was already replied to.
  bool not_put(const Request& from) noexcept { return drop(arriving_, from); }

  // Invariants 8 and 13: afterwards no request waits for an item or for room that is available. If
  // there is no memory for a reply, the request waits until the next message of any client.
  template <typename Port>
  void settle(Port& port) {
    try {
      if (end_ == End::kAtOnce) items_.drop_waiting();
      if (is_shut_down()) refuse_puts(port);
      while (!putters_.empty() && has_room_for(putters_.front())) admit(port);
      while (!getters_.empty() && any_waits()) deal(port);
      for (; unfinished() == 0 && !joiners_.empty(); joiners_.pop_front())
        port.done(joiners_.front());
      const auto done = [&](const Request& from) { port.done(from); };
      if (is_shut_down()) {
        answer(getters_, [&](const Request& from) { port.shut_down(from); });
        answer(enders_, done);
      }
      answer(drainers_, done);
    } catch (const std::bad_alloc&) {
    }
  }

  // Room for items that producers may put without a request (put_rings.hpp). promised(): number of
  // promised items that were not entered yet. room_to_promise(): how many more may be promised.
  std::size_t promised() const noexcept { return promised_; }
  void set_promised(std::size_t items) noexcept { promised_ = items; }
  std::size_t room_to_promise() const noexcept {
    if (is_shut_down() || !putters_.empty() || max_bytes_ != 0) return 0;
    if (maxsize_ == 0) return std::numeric_limits<std::size_t>::max();
    const std::size_t used = items() + promised_;
    return used < maxsize_ ? maxsize_ - used : 0;
  }
  // Returns true if `maxsize` allows one more item. Ignores waiting PUTs and `max_bytes`.
  bool has_room() const noexcept { return maxsize_ == 0 || items() + promised_ < maxsize_; }
  // Adds an item for which room was promised. The caller calls settle() afterwards.
  void enter(Item item, std::uint64_t bytes) {
    items_.add_last(typename States::Entry{.item = std::move(item), .bytes = bytes});
    --promised_;
  }
  // Counts an item that cannot be added as lost.
  void count_lost() noexcept {
    items_.count_lost();
    if (promised_ != 0) --promised_;
  }
  // Adds an item. Returns false if a PUT waits, or there is no room.
  template <typename Port>
  bool put_now(Port& port, Item item, std::uint64_t bytes) {
    if (room_to_promise() == 0) return false;
    items_.add_last(typename States::Entry{.item = std::move(item), .bytes = bytes});
    settle(port);
    return true;
  }
  // Number of items lent in advance: the oldest items, which clients may take without a request
  // (get_ring.hpp). Items are lent only while no GET waits and no item is offered: an offered item
  // is older, and may come back.
  std::size_t lent_ahead() const noexcept { return lent_ahead_; }
  // Calls lend(item, number) for the next items, in order, until lend() returns false, or an item
  // has rested.
  template <typename Lend>
  void lend_ahead(const Lend& lend) {
    if (!getters_.empty() || items_.offered() != 0) return;
    const auto& waiting = items_.waiting();
    auto next = lent_ahead_ == 0 ? waiting.begin() : waiting.upper_bound(last_ahead_);
    for (; next != waiting.end(); ++next) {
      const auto& entry = next->second;
      if (entry.rests_until != typename Clock::time_point{}) return;
      if (!lend(entry.item, items_.redeliver() ? next->first : 0)) return;
      last_ahead_ = next->first;
      ++lent_ahead_;
    }
  }
  // Moves the oldest lent item, which the client has taken, into the client's hand. The client must
  // be known. The caller calls settle() afterwards.
  void take_ahead(const Client& client) noexcept {
    items_.finish_with_taken(client);
    items_.take_first(client);
    --lent_ahead_;
  }
  // Counts the oldest lent item as lost: its taker is unknown.
  void lose_ahead() noexcept {
    items_.lose_first();
    --lent_ahead_;
  }
  // Called when lent items can no longer be taken: they wait like other items.
  void take_back_ahead() noexcept { lent_ahead_ = 0; }
  // Makes the client known, so that it may take lent items.
  void expect_from(const Client& client) { items_.of(client); }

  // Gives the client the oldest item at once, if no other GET waits and no older item may come
  // back. Calls read(item) first: the item is taken only if read() returns true and, for an item
  // that is lent in advance, take_back() then returns true. Returns the item's number; 0 if it was
  // not taken.
  template <typename Port, typename Read, typename TakeBack>
  std::uint64_t take_now(Port& port, const Client& client, const Read& read,
                         const TakeBack& take_back) {
    if (!any_waits() || !getters_.empty() || items_.offered() != 0) return 0;
    const auto& first = items_.waiting().begin()->second;
    if (first.offered_for != Clock::duration{}) return 0;
    items_.finish_with_taken(client);
    if (!read(first.item) || (lent_ahead_ != 0 && !take_back())) return 0;
    const std::uint64_t number = items_.take_first(client);
    if (lent_ahead_ != 0) --lent_ahead_;
    settle(port);
    return number;
  }

  // Returns true if an item is offered to a client that has neither accepted nor refused it.
  bool has_offers() const noexcept { return items_.offered() != 0; }

  // `holds`: other processes may see an offered item before the client accepts it. If the client
  // dies then, the item is lost without `redeliver`: no other client may get it.
  template <typename Port>
  void get(Port& port, Request from, bool waits, bool holds = false) {
    require_room_to_wait(getters_.size());
    finish_with_taken(from.client);
    if (holds) items_.of(from.client).holds = true;
    if (!any_waits() && !waits)
      return is_over_for(from.client) ? port.shut_down(from) : port.timed_out(from);
    getters_.push_back(std::move(from));
    settle(port);
  }

  // Records that the client requests an item. Without `redeliver`, the client has thereby finished
  // with the items that it took before: returns their number.
  std::size_t finish_with_taken(const Client& client) { return items_.finish_with_taken(client); }

  // Gives a client the item that it was offered. Returns the item's number; 0 if this GET was
  // offered none. `keeps`: with `redeliver`, the table keeps the item, which may wait here again.
  template <typename Port>
  std::uint64_t take(Port& port, const Request& get, bool keeps = true) {
    const std::uint64_t number = items_.take(get, keeps);
    if (number != 0) settle(port);
    return number;
  }
  // Drops an offered item whose memory is gone. Returns its number; 0 if this GET was offered none.
  template <typename Port>
  std::uint64_t spoil(Port& port, const Request& get) {
    const std::uint64_t number = items_.spoil(get);
    if (number != 0) settle(port);
    return number;
  }

  // Ends the work on the item of this number that the client took; without `redeliver`, on `number`
  // items (0: one). Throws Error(kInvalidArgument) if the client does not have them.
  template <typename Port>
  void task_done(Port& port, const Client& client, std::uint64_t number) {
    items_.finish(client, number);
    settle(port);
  }
  // Takes items from the client's hand, as if it had died with them: with `redeliver`, the item of
  // this number waits again; without `redeliver`, `number` items (0: one) are lost. Throws like
  // task_done().
  template <typename Port>
  void give_back(Port& port, const Client& client, std::uint64_t number) {
    items_.give_back(client, number);
    settle(port);
  }

  template <typename Port>
  void join(Port& port, Request from) {
    require_room_to_wait(joiners_.size());
    joiners_.push_back(std::move(from));
    settle(port);
  }

  // Replies when no item is left for other clients: none waits or may come back. `until_shut_down`:
  // and the queue was shut down.
  template <typename Port>
  void drain(Port& port, Request from, bool until_shut_down = false) {
    auto& waiting = until_shut_down ? enders_ : drainers_;
    require_room_to_wait(waiting.size());
    waiting.push_back(std::move(from));
    settle(port);
  }

  // Refuses further puts, and ends gets when no item is left for them. `immediate`: drops the
  // waiting items, and each item that comes back later.
  template <typename Port>
  void shut_down(Port& port, bool immediate) {
    if (end_ != End::kAtOnce) end_ = immediate ? End::kAtOnce : End::kDrained;
    settle(port);
  }

  // Replies to a waiting request; an offered item returns to its place. `read`: the client was able
  // to read the item, so the offer does not count for `patience`.
  template <typename Port>
  void cancel(Port& port, const Request& request, bool read = false) {
    if (items_.refuse(request, port.now(), read ? Clock::duration::max() : patience_))
      return settle(port);
    const bool waited = drop(getters_, request) || drop(joiners_, request) ||
                        drop(drainers_, request) || drop(enders_, request) ||
                        drop(putters_, request) || drop(arriving_, request);
    if (waited) port.timed_out(request);
  }

  // Removes a client that is dead or has hung up, after all its messages.
  template <typename Port>
  void forget(Port& port, const Client& client) {
    for (auto* waiting : {&getters_, &joiners_, &drainers_, &enders_})
      waiting->remove_if([&](const Request& from) { return from.client == client; });
    const auto is_its = [&](const Putter& putter) { return putter.from.client == client; };
    putters_.remove_if(is_its);
    arriving_.remove_if(is_its);
    items_.forget(client);
    settle(port);
  }

  // For a mirror (mirror_table.hpp): adds an item under its number, without a PUT.
  template <typename Port>
  void add(Port& port, std::uint64_t number, Item item) {
    if (!items_.add(number, std::move(item)))
      throw Error(Code::kInvalidArgument, "item " + std::to_string(number) + " is already waiting");
    settle(port);
  }
  // Removes a waiting item. Returns false if no item of this number waits.
  template <typename Port>
  bool remove(Port& port, std::uint64_t number) {
    if (!items_.remove(number)) return false;
    settle(port);
    return true;
  }
  // Returns the numbers of the waiting items, the latest first.
  std::vector<std::uint64_t> waiting() const { return items_.numbers(); }
  // Removes the items in the client's hand. Called before forget().
  typename States::InHand remove_in_hand(const Client& client) {
    return items_.remove_in_hand(client);
  }
  // Accepts items again after shut_down().
  void reopen() noexcept { end_ = End::kNone; }

  // Denies all waiting requests and drops all items.
  template <typename Port>
  void close(Port& port, const Error& why) {
    for (const auto* waiting : {&getters_, &joiners_, &drainers_, &enders_})
      for (const Request& request : *waiting) port.deny(request, why);
    for (const auto* waiting : {&putters_, &arriving_})
      for (const Putter& putter : *waiting) port.deny(putter.from, why);
    *this = QueueTable(maxsize_, items_.redeliver(), patience_, max_bytes_);
  }

 private:
  friend struct QueueTableState;  // for queue_model.hpp

  enum class End { kNone, kDrained, kAtOnce };  // how the queue was shut down

  struct Putter {
    Request from;
    bool waits = false;           // for room
    typename States::Items item;  // empty: the item has not come yet
  };

  static auto find(std::list<Putter>& putters, const Request& request) noexcept {
    return std::ranges::find(putters, request, &Putter::from);
  }
  static bool drop(std::list<Request>& waiting, const Request& request) {
    return waiting.remove(request) != 0;
  }
  static bool drop(std::list<Putter>& putters, const Request& request) {
    return putters.remove_if([&](const Putter& putter) { return putter.from == request; }) != 0;
  }

  bool has_room_for(const Putter& putter) const noexcept {
    const std::uint64_t bytes = putter.item.begin()->second.bytes;
    return has_room() &&
           (max_bytes_ == 0 || (bytes <= max_bytes_ && this->bytes() <= max_bytes_ - bytes));
  }

  // Returns true if no item waits, and no item that this client could get may come back.
  bool is_drained_for(const Client& client) const {
    return !any_waits() && (end_ == End::kAtOnce || !items_.may_come_back(client));
  }

  // Replies to the requests of clients for which no item is left.
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

  template <typename Port>
  void admit(Port& port) {
    Putter& putter = putters_.front();
    port.done(putter.from);
    auto item = putter.item.extract(putter.item.begin());
    putters_.pop_front();
    items_.add_last(std::move(item));
  }

  // Offers the next item to the client that has waited longest. If the item cannot be lent, the
  // item stays, and the client's request is denied with the Error. If the item's memory is gone
  // (kClosed), the item is lost.
  template <typename Port>
  void deal(Port& port) {
    const auto next = items_.next(port.now());
    const Request& to = getters_.front();
    try {
      port.offer(to, next->second.item, items_.redeliver() ? next->first : 0);
    } catch (const Error& error) {
      port.deny(to, error);
      getters_.pop_front();
      if (error.code() == Code::kClosed) items_.lose(next);
      return;
    }
    items_.offer(next, to, port.now());
    getters_.pop_front();
  }

  std::size_t maxsize_;
  std::uint64_t max_bytes_;
  Clock::duration patience_;
  States items_;
  std::size_t promised_ = 0;  // room that producers may use without a request
  std::size_t lent_ahead_ = 0;
  std::uint64_t last_ahead_ = 0;  // number of the last item lent in advance
  End end_ = End::kNone;
  std::list<Putter> arriving_;
  std::list<Putter> putters_;  // in the order in which they get room
  std::list<Request> getters_;
  std::list<Request> joiners_;
  std::list<Request> drainers_;
  std::list<Request> enders_;  // wait for a shutdown, then like drainers_
};

}  // namespace tensorbus::bus
