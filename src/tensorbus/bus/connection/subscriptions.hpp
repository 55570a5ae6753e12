#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tensorbus/bus/connection/outbound_connections.hpp"
#include "tensorbus/bus/domain/topic_name.hpp"
#include "tensorbus/bus/event_loop/peer_log.hpp"
#include "tensorbus/bus/subscribe/receiver.hpp"
#include "tensorbus/platform/mutex.hpp"

namespace tensorbus::bus {

// The subscribers of a participant, and the publishers that each has joined. Thread-safe.
class Subscriptions {
 public:
  // `only`: the subscriber joins only this publisher; empty: all publishers of the topic.
  void add(const std::shared_ptr<Receiver>& subscriber, std::string escaped_topic,
           std::optional<PublisherName> only);
  void remove(const std::shared_ptr<Receiver>& subscriber);
  bool empty() const;
  std::vector<std::shared_ptr<Receiver>> living() const;

  // Joins every subscriber to every publisher of its topic that it has not joined; `files` are the
  // files of the domain. Used only on the event loop. Returns false if there was no room for some
  // (memory::PeerLimit): these subscribers count a refusal, and must be joined later.
  bool join(const std::vector<std::string>& files, OutboundConnections& owners, PeerLog& log);
  // Records a subscription that has ended although its publisher goes on. It is joined again after
  // forget_lost(). So is a subscriber that was cut off, when its program has looked for samples.
  void lose(const std::shared_ptr<Receiver>& subscriber, const PublisherName& publisher) noexcept;
  void forget_lost();

  // Calls Receiver::look_after_event() of each subscriber. Returns true if programs poll some of
  // them.
  bool look_after_events();

 private:
  struct Joined {
    bool lost = false;
  };
  struct Listening {
    std::weak_ptr<Receiver> subscriber;
    std::string escaped_topic;
    std::optional<PublisherName> only;
    std::map<PublisherName, Joined> joined;
  };
  using Pair = std::pair<std::shared_ptr<Receiver>, PublisherName>;

  std::vector<Pair> not_joined(const std::vector<std::string>& files,
                               const OutboundConnections& owners);
  void join(const std::shared_ptr<Receiver>& subscriber, const PublisherName& publisher,
            OutboundConnections& owners);
  Listening* find(const std::shared_ptr<Receiver>& subscriber) noexcept TB_REQUIRES(mutex_);

  mutable platform::Mutex mutex_;
  std::vector<Listening> listening_ TB_GUARDED_BY(mutex_);
};

}  // namespace tensorbus::bus
