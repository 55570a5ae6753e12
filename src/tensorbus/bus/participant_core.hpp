#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tensorbus/bus/borrower_connection.hpp"
#include "tensorbus/bus/domain.hpp"
#include "tensorbus/bus/options.hpp"
#include "tensorbus/bus/owner_connection.hpp"
#include "tensorbus/bus/publisher_core.hpp"
#include "tensorbus/bus/service.hpp"
#include "tensorbus/bus/subscriber_core.hpp"

namespace tensorbus::bus {

// One process on one domain: its endpoints, its arena, its connections and the thread that serves
// them.
//
// Lock order: mutex_ here, then a publisher's or subscriber's mutex, then arena, channel, service.
// Connections belong to the service thread and need no lock.
class ParticipantCore {
 public:
  explicit ParticipantCore(const ParticipantOptions& options);
  ~ParticipantCore();
  ParticipantCore(const ParticipantCore&) = delete;
  ParticipantCore& operator=(const ParticipantCore&) = delete;

  const Id& id() const noexcept { return surroundings_.self; }
  const Domain& domain() const noexcept { return domain_; }
  memory::Arena& arena() const noexcept { return *surroundings_.arena; }
  std::uint32_t fork_generation() const noexcept { return fork_generation_; }

  std::shared_ptr<PublisherCore> add_publisher(const std::string& topic,
                                               const PublisherOptions& options);
  void close_publisher(const std::shared_ptr<PublisherCore>& publisher);
  std::shared_ptr<SubscriberCore> add_subscriber(const std::string& topic,
                                                 const SubscriberOptions& options);
  void close_subscriber(const std::shared_ptr<SubscriberCore>& subscriber);

  // The subscriber's, which is looked after from now on.
  int event_descriptor(const std::shared_ptr<SubscriberCore>& subscriber);

  // A block of the arena; takes back what subscribers returned before it gives up.
  memory::BlockRef allocate(std::size_t bytes, memory::Grant most);

 private:
  using PublisherName = std::pair<Id, std::uint32_t>;
  struct Listening {
    std::weak_ptr<SubscriberCore> subscriber;
    std::string escaped_topic;
    std::set<PublisherName> joined;
  };

  // On the service thread.
  void watch_listener();
  void on_connection();
  void adopt_connection(platform::Fd socket);
  void on_directory_change();
  void scan();
  void join(const std::shared_ptr<SubscriberCore>& subscriber, const PublisherName& publisher);
  BorrowerConnection* connection_to(const Id& owner);
  void forget_owner(BorrowerConnection& connection, const std::string& why);
  void clear_up_after(const Id& owner, int looks);
  void join_again(const std::shared_ptr<SubscriberCore>& subscriber, const PublisherName& name);
  void drop_silent_connections();
  void drop_idle_connections();
  void tell_retired();
  void scan_soon();
  void look_after_events();

  std::vector<std::shared_ptr<PublisherCore>> publishers();
  std::shared_ptr<PublisherCore> find_publisher(std::uint32_t number);

  const std::uint32_t fork_generation_;
  const Domain domain_;
  Service service_;
  Surroundings surroundings_;
  platform::Fd listener_;
  Service::Tag listener_tag_ = 0;
  platform::DirectoryWatch watch_;

  std::mutex mutex_;
  std::map<std::uint32_t, std::weak_ptr<PublisherCore>> publishers_;
  std::vector<Listening> listening_;
  std::uint32_t next_publisher_ = 1;
  bool looks_after_events_ = false;

  std::vector<std::unique_ptr<OwnerConnection>> owner_connections_;
  bool drops_silent_connections_ = false;
  std::map<Id, std::shared_ptr<BorrowerConnection>> borrower_connections_;
};

}  // namespace tensorbus::bus
