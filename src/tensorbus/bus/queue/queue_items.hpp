#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tensorbus/platform/error.hpp"

namespace tensorbus::bus {

// Identifies a client's request to a queue.
template <typename Client>
struct ClientRequest {
  Client client{};
  std::uint32_t number = 0;  // chosen by the client
  bool operator==(const ClientRequest&) const = default;
};

// The items of one queue, by state: waiting, offered to a client, or in its hand. The state of an
// item is the map that holds its node. Nodes move from map to map: adding an item and the first
// lookup of a client allocate memory, other transitions do not. QueueTable decides when items move.
template <typename Client, typename Item>
class QueueItems {
 public:
  using Request = ClientRequest<Client>;
  using Clock = std::chrono::steady_clock;

  struct Entry {
    Item item;
    std::uint64_t bytes = 0;
    std::uint64_t number = 0;
    Clock::time_point offered_at{};
    Clock::duration offered_for{};  // total time of offers to clients that refused the item
    Clock::time_point rests_until{};
  };
  using Items = std::map<std::uint64_t, Entry>;  // by number
  using Node = typename Items::node_type;
  // By request number. A client may use a number twice.
  using Offers = std::multimap<std::uint64_t, Entry>;

  // The items of one client, from its first GET to its end.
  struct Hands {
    Offers offered;
    Items taken;
    std::uint64_t finished_with = 0;  // taken before the last GET but not done; without `redeliver`
    bool holds = false;               // other processes may see an offered item
  };
  using Clients = std::map<Client, Hands>;

  explicit QueueItems(bool redeliver) : redeliver_(redeliver) {}

  bool redeliver() const noexcept { return redeliver_; }
  // Number of waiting and offered items, and their bytes.
  std::size_t count() const noexcept { return waiting_.size() + offered_; }
  std::uint64_t bytes() const noexcept { return bytes_; }
  std::uint64_t unfinished() const noexcept { return unfinished_; }
  std::uint64_t lost() const noexcept { return lost_; }
  std::uint64_t redelivered() const noexcept { return redelivered_; }
  std::uint64_t last_number() const noexcept { return last_number_; }
  std::size_t offered() const noexcept { return offered_; }
  const Items& waiting() const noexcept { return waiting_; }
  const Clients& clients() const noexcept { return clients_; }
  // Returns the numbers of the waiting items, the latest first.
  std::vector<std::uint64_t> numbers() const {
    std::vector<std::uint64_t> all;
    for (auto item = waiting_.rbegin(); item != waiting_.rend(); ++item) all.push_back(item->first);
    return all;
  }

  // Adds an item behind all others.
  void add_last(Entry entry) {
    const std::uint64_t bytes = entry.bytes;
    entry.number = last_number_ + 1;
    waiting_.emplace_hint(waiting_.end(), entry.number, std::move(entry));
    bytes_ += bytes;
    ++last_number_;
    ++unfinished_;
  }
  // Adds an item behind all others, in a node that was made before.
  void add_last(Node item) noexcept {
    item.mapped().number = ++last_number_;
    bytes_ += item.mapped().bytes;
    wait_again(std::move(item));
    ++unfinished_;
  }
  // Adds an item under a number. Returns false if an item of this number is already waiting.
  bool add(std::uint64_t number, Item item) {
    if (!waiting_.try_emplace(number, Entry{.item = std::move(item), .number = number}).second)
      return false;
    ++unfinished_;
    return true;
  }
  // Removes a waiting item. Returns false if no item of this number waits.
  bool remove(std::uint64_t number) noexcept {
    if (waiting_.erase(number) == 0) return false;
    --unfinished_;
    return true;
  }
  void drop_waiting() noexcept {
    for (const auto& [number, entry] : waiting_) bytes_ -= entry.bytes;
    unfinished_ -= waiting_.size();
    waiting_.clear();
  }
  // Counts a waiting item as lost.
  void lose(typename Items::iterator item) noexcept {
    bytes_ -= item->second.bytes;
    waiting_.erase(item);
    lose(1);
  }
  void lose_first() noexcept { lose(waiting_.begin()); }
  // Counts an item that was put but never waited as lost.
  void count_lost() noexcept { ++lost_; }
  // Returns the oldest item that does not rest; the oldest item if all rest.
  typename Items::iterator next(Clock::time_point now) noexcept {
    const auto found = std::find_if(waiting_.begin(), waiting_.end(), [&](const auto& item) {
      return item.second.rests_until <= now;
    });
    return found == waiting_.end() ? waiting_.begin() : found;
  }

  Hands& of(const Client& client) { return clients_[client]; }
  // Records that the client requests an item. Returns the number of items that it has thereby
  // finished with.
  std::size_t finish_with_taken(const Client& client) {
    Hands& hands = clients_[client];
    if (redeliver_) return 0;
    const std::size_t finished = hands.taken.size();
    hands.finished_with += finished;
    hands.taken.clear();
    return finished;
  }

  // --- Transitions. The client must be known, from of() or finish_with_taken(). ---

  void offer(typename Items::iterator item, const Request& to, Clock::time_point now) noexcept {
    Node node = waiting_.extract(item);
    node.key() = to.number;
    node.mapped().offered_at = now;
    clients_.find(to.client)->second.offered.insert(std::move(node));
    ++offered_;
  }
  // Returns the number of the item; 0 if this GET was offered none. `keeps`: with `redeliver`,
  // keeps the item, which may wait again.
  std::uint64_t take(const Request& get, bool keeps) noexcept {
    auto [item, hands] = extract_offered(get);
    if (!item) return 0;
    return hand_over(std::move(item), *hands, keeps);
  }
  // Hands over the oldest item without an offer.
  std::uint64_t take_first(const Client& client) noexcept {
    return hand_over(waiting_.extract(waiting_.begin()), clients_.find(client)->second, true);
  }
  std::uint64_t spoil(const Request& get) noexcept {
    const Node item = extract_offered(get).first;
    if (!item) return 0;
    bytes_ -= item.mapped().bytes;
    lose(1);
    return item.mapped().number;
  }
  // Returns an offered item to its place. Returns false if this GET was offered none. If the owner
  // of an item's memory is stopped, each client refuses the item after a while. Once these offers
  // have taken `patience` in total, the item rests, so that clients get later items. `patience` of
  // max(): this offer does not count.
  bool refuse(const Request& get, Clock::time_point now, Clock::duration patience) noexcept {
    auto [item, hands] = extract_offered(get);
    if (!item) return false;
    Entry& entry = item.mapped();
    if (patience != Clock::duration::max() &&
        (entry.offered_for += now - entry.offered_at) >= patience)
      entry.rests_until = now + kRests * patience + kTick;
    wait_again(std::move(item));
    return true;
  }
  // Throws Error(kInvalidArgument) if the client does not have this item, or that many items.
  void finish(const Client& client, std::uint64_t number) {
    Hands& hands = known(client);
    if (redeliver_) {
      if (hands.taken.erase(number) == 0) refuse_item();
      --unfinished_;
    } else {
      unfinished_ -= remove_unnamed(hands, number);
    }
  }
  // As finish(), but treats the items as if the client had died with them.
  void give_back(const Client& client, std::uint64_t number) {
    Hands& hands = known(client);
    if (!redeliver_) return lose(remove_unnamed(hands, number));
    Node item = hands.taken.extract(number);
    if (!item) refuse_item();
    bytes_ += item.mapped().bytes;
    ++redelivered_;
    wait_again(std::move(item));
  }
  void forget(const Client& client) noexcept {
    auto left = clients_.extract(client);
    if (!left) return;
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

  // The items that a client has in hand.
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

  // Returns true if items are offered to any client, or may come back from another client's hand.
  bool may_come_back(const Client& client) const {
    return offered_ != 0 || (redeliver_ && std::ranges::any_of(clients_, [&](const auto& other) {
                               return other.first != client && !other.second.taken.empty();
                             }));
  }

 private:
  static constexpr Clock::duration kTick{1};
  static constexpr int kRests = 10;  // an item rests for this multiple of the patience

  [[noreturn]] static void refuse_item() {
    throw Error(Code::kInvalidArgument, "task_done() of an item that this process does not have");
  }
  Hands& known(const Client& client) {
    const auto found = clients_.find(client);
    if (found == clients_.end()) refuse_item();
    return found->second;
  }
  // Removes items of a queue without `redeliver`, starting with the items that were finished with.
  static std::uint64_t remove_unnamed(Hands& hands, std::uint64_t number) {
    const std::uint64_t count = std::max<std::uint64_t>(number, 1);
    const std::uint64_t finished = std::min(count, hands.finished_with);
    if (count - finished > hands.taken.size()) refuse_item();
    hands.finished_with -= finished;
    const auto first = hands.taken.begin();
    hands.taken.erase(first, std::next(first, static_cast<std::ptrdiff_t>(count - finished)));
    return count;
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
  std::uint64_t hand_over(Node item, Hands& hands, bool keeps) noexcept {
    const std::uint64_t number = item.key() = item.mapped().number;
    bytes_ -= item.mapped().bytes;
    if (!redeliver_ || !keeps) item.mapped().item = Item{};
    hands.taken.insert(hands.taken.end(), std::move(item));
    return number;
  }
  void wait_again(Node item) noexcept {
    item.key() = item.mapped().number;
    waiting_.insert(std::move(item));
  }
  void lose(std::uint64_t items) noexcept {
    lost_ += items;
    unfinished_ -= items;
  }

  bool redeliver_;
  Items waiting_;
  Clients clients_;
  std::size_t offered_ = 0;  // to all clients
  std::uint64_t bytes_ = 0;  // of waiting and offered items
  std::uint64_t last_number_ = 0;
  std::uint64_t unfinished_ = 0;
  std::uint64_t lost_ = 0;
  std::uint64_t redelivered_ = 0;  // items that came back from dead clients, or were given back
};

}  // namespace tensorbus::bus
