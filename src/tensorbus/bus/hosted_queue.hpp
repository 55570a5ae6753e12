#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>

#include "tensorbus/bus/exchange.hpp"
#include "tensorbus/bus/held_sample.hpp"

namespace tensorbus::bus {

// A request of a client that waits for its answer.
struct Party {
  std::shared_ptr<Exchange> client;
  std::uint32_t request = 0;
};

struct HostedQueueOptions {
  std::uint32_t maxsize = 0;  // 0: no limit
  bool redeliver = false;
  bool shared = false;  // its items are to be written
  std::string name{};
};

// A queue at its host (docs/protocol.md, section 7): the items, and who waits for what. On the
// service thread.
class HostedQueue {
 public:
  // Lends an item to a client under this number. May throw.
  using Lend = std::function<void(const Party&, const HeldRef& item, std::uint64_t number)>;

  HostedQueue(HostedQueueOptions options, Lend lend)
      : options_(std::move(options)), lend_(std::move(lend)) {}

  const HostedQueueOptions& options() const noexcept { return options_; }
  memory::Grant grant() const noexcept {
    return options_.shared ? memory::Grant::kWrite : memory::Grant::kRead;
  }

  void put(Party from, HeldRef item, std::uint32_t flags);
  // One that a client got under this number, and nobody took there: to where it was.
  void take_back(const Party& from, HeldRef item, std::uint64_t number);
  void get(Party from, std::uint32_t flags);
  // Throws Error(kInvalidArgument) for one more than there were items.
  void task_done(const Party& from);
  void join(Party from);
  void tell_state(const Party& from) const;

  // The request is answered, if it waits here.
  void cancel(const Exchange& client, std::uint32_t request);
  // The client is gone.
  void forget(const Exchange& client);
  // Nobody gets or puts anything any more.
  void close();

 private:
  struct Offered {
    Party from;
    HeldRef item;
  };
  struct InHand {
    const Exchange* client;
    std::uint64_t number;
    HeldRef item;  // empty without `redeliver`
  };

  bool full() const noexcept { return options_.maxsize != 0 && items_.size() >= options_.maxsize; }
  void settle();
  bool deal();
  void finish(std::uint64_t items);

  const HostedQueueOptions options_;
  const Lend lend_;
  // By number, in the order of their puts; what comes back finds its place again. A client that
  // lies may have several come back under one.
  std::multimap<std::uint64_t, HeldRef> items_;
  std::uint64_t next_number_ = 1;
  std::list<Offered> putters_;
  std::list<Party> getters_;
  std::list<Party> joiners_;
  std::map<std::uint64_t, InHand> in_hand_;  // in the order in which they were dealt
  std::uint64_t next_deal_ = 1;
  std::uint64_t unfinished_ = 0;
  std::map<const Exchange*, std::uint64_t> undone_;  // items that a client got and has not done
  std::uint64_t lost_ = 0;
};

}  // namespace tensorbus::bus
