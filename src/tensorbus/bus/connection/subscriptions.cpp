#include "tensorbus/bus/connection/subscriptions.hpp"

#include <algorithm>
#include <set>
#include <string_view>

namespace tensorbus::bus {
namespace {

constexpr int kMaxUnreached = 256;  // about 3 ms

}  // namespace

void Subscriptions::add(const std::shared_ptr<Receiver>& subscriber, std::string escaped_topic,
                        std::optional<PublisherName> only) {
  const platform::MutexLock lock(mutex_);
  listening_.push_back({subscriber, std::move(escaped_topic), only, {}});
}

void Subscriptions::remove(const std::shared_ptr<Receiver>& subscriber) {
  const platform::MutexLock lock(mutex_);
  std::erase_if(listening_, [&](const Listening& listening) {
    return listening.subscriber.expired() || listening.subscriber.lock() == subscriber;
  });
}

bool Subscriptions::empty() const {
  const platform::MutexLock lock(mutex_);
  return listening_.empty();
}

std::vector<std::shared_ptr<Receiver>> Subscriptions::living() const {
  std::vector<std::shared_ptr<Receiver>> living;
  const platform::MutexLock lock(mutex_);
  for (const Listening& listening : listening_)
    if (auto subscriber = listening.subscriber.lock()) living.push_back(std::move(subscriber));
  return living;
}

bool Subscriptions::join(const std::vector<std::string>& files, OutboundConnections& owners,
                         PeerLog& log) {
  bool room_for_all = true;
  // Tries a limited number of dead owners at a time. The removal of their files causes another
  // scan.
  int left = kMaxUnreached;
  for (const auto& [subscriber, publisher] : not_joined(files, owners)) {
    try {
      if (owners.connection_to(publisher.first) != nullptr)
        join(subscriber, publisher, owners);
      else if (--left == 0)
        break;
    } catch (const memory::PeerLimit& limit) {  // perhaps of this owner only: goes on
      room_for_all = false;
      log.write(platform::LogLevel::kWarning, subscriber->topic(), PeerLog::kNoProcess,
                {"a publisher cannot be joined now: ", limit.what(), " (trying again)"});
      subscriber->not_joined(limit.what());
    }
  }
  return room_for_all;
}

std::vector<Subscriptions::Pair> Subscriptions::not_joined(const std::vector<std::string>& files,
                                                           const OutboundConnections& owners) {
  std::multimap<std::string_view, PublisherName> markers;
  for (const std::string& file : files)
    if (const auto marker = parse_marker(file))
      markers.emplace(marker->escaped_topic, PublisherName{marker->participant, marker->publisher});
  std::vector<Pair> found;
  const platform::MutexLock lock(mutex_);
  for (Listening& listening : listening_) {
    std::set<PublisherName> present;
    const auto [begin, end] = markers.equal_range(listening.escaped_topic);
    for (auto at = begin; at != end; ++at)
      if (!listening.only || at->second == *listening.only) present.insert(at->second);
    const auto subscriber = listening.subscriber.lock();
    if (!subscriber) continue;
    // The marker of a publisher that goes on may have been removed. The owner makes it again.
    std::erase_if(listening.joined, [&](const auto& item) {
      const auto& [owner, number] = item.first;
      return !present.contains(item.first) && !owners.has_link(subscriber, owner, number);
    });
    for (const PublisherName& name : present)
      if (!listening.joined.contains(name)) found.emplace_back(subscriber, name);
  }
  return found;
}

void Subscriptions::join(const std::shared_ptr<Receiver>& subscriber,
                         const PublisherName& publisher, OutboundConnections& owners) {
  OutboundConnection* const connection = owners.connection_to(publisher.first);
  if (connection == nullptr) return;
  const platform::MutexLock lock(mutex_);
  Listening* const listening = find(subscriber);
  if (listening == nullptr) return;
  const auto joined = listening->joined.emplace(publisher, Joined{}).first;
  try {
    connection->subscribe(subscriber, publisher.second);
  } catch (...) {
    listening->joined.erase(joined);
    throw;
  }
}

void Subscriptions::lose(const std::shared_ptr<Receiver>& subscriber,
                         const PublisherName& publisher) noexcept {
  const platform::MutexLock lock(mutex_);
  Listening* const listening = find(subscriber);
  if (listening == nullptr) return;
  const auto joined = listening->joined.find(publisher);
  if (joined != listening->joined.end()) joined->second.lost = true;
}

void Subscriptions::forget_lost() {
  const platform::MutexLock lock(mutex_);
  for (Listening& listening : listening_) {
    std::erase_if(listening.joined, [](const auto& item) { return item.second.lost; });
    const auto subscriber = listening.subscriber.lock();
    if (!subscriber) continue;
    for (const PublisherName& name : subscriber->take_rejoins()) listening.joined.erase(name);
  }
}

bool Subscriptions::look_after_events() {
  const platform::MutexLock lock(mutex_);
  bool polled = false;
  for (const Listening& listening : listening_)
    if (const auto subscriber = listening.subscriber.lock())
      polled = subscriber->look_after_event() || polled;
  return polled;
}

Subscriptions::Listening* Subscriptions::find(
    const std::shared_ptr<Receiver>& subscriber) noexcept {
  const auto found = std::find_if(
      listening_.begin(), listening_.end(),
      [&](const Listening& listening) { return listening.subscriber.lock() == subscriber; });
  return found == listening_.end() ? nullptr : &*found;
}

}  // namespace tensorbus::bus
