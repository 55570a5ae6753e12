#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tensorbus/bus/connection/outbound_connections.hpp"
#include "tensorbus/bus/subscribe/subscriber_core.hpp"
#include "tensorbus/platform/mutex.hpp"

namespace tensorbus::bus {

// The subscribers of a participant, and which publishers each of them was joined with. Thread-safe.
class Subscriptions {
 public:
  using PublisherName = std::pair<Id, std::uint32_t>;

  void add(const std::shared_ptr<SubscriberCore>& subscriber, std::string escaped_topic);
  void remove(const std::shared_ptr<SubscriberCore>& subscriber);
  bool empty() const;

  // Joins every subscriber with every publisher of its topic that it was not joined with; `files`
  // are the domain's. On the event loop. False: for some there was no room (memory::PeerLimit);
  // they are told, and to be joined later.
  bool join(const std::vector<std::string>& files, OutboundConnections& owners);
  // The publisher goes on, the subscription does not: to be joined again after forget_lost().
  void lose(const std::shared_ptr<SubscriberCore>& subscriber,
            const PublisherName& publisher) noexcept;
  void forget_lost();

  // True: there are some that somebody polls.
  bool look_after_events();

 private:
  struct Joined {
    bool lost = false;
  };
  struct Listening {
    std::weak_ptr<SubscriberCore> subscriber;
    std::string escaped_topic;
    std::map<PublisherName, Joined> joined;
  };
  using Pair = std::pair<std::shared_ptr<SubscriberCore>, PublisherName>;

  std::vector<Pair> not_joined(const std::vector<std::string>& files,
                               const OutboundConnections& owners);
  void join(const std::shared_ptr<SubscriberCore>& subscriber, const PublisherName& publisher,
            OutboundConnections& owners);
  Listening* find(const std::shared_ptr<SubscriberCore>& subscriber) noexcept TB_REQUIRES(mutex_);

  mutable platform::Mutex mutex_;
  std::vector<Listening> listening_ TB_GUARDED_BY(mutex_);
};

}  // namespace tensorbus::bus
