#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "tensorbus/bus/domain.hpp"
#include "tensorbus/bus/options.hpp"
#include "tensorbus/bus/owner_connection.hpp"
#include "tensorbus/bus/owners.hpp"
#include "tensorbus/bus/prepared_sample.hpp"
#include "tensorbus/bus/publisher_core.hpp"
#include "tensorbus/bus/service.hpp"
#include "tensorbus/bus/stale_files.hpp"
#include "tensorbus/bus/subscriber_core.hpp"
#include "tensorbus/bus/subscriptions.hpp"
#include "tensorbus/bus/surroundings.hpp"
#include "tensorbus/bus/taken_items.hpp"

namespace tensorbus::bus {

// One process on one domain: its endpoints, its arena, its connections and the thread that serves
// them.
//
// Lock order: mutex_ here or the subscriptions', then a publisher's or subscriber's mutex, then
// arena, channel, service; mutex_ here may also be taken under a subscriber's. Connections belong
// to the service thread and need no lock.
class ParticipantCore {
 public:
  explicit ParticipantCore(const ParticipantOptions& options);
  ~ParticipantCore();
  ParticipantCore(const ParticipantCore&) = delete;
  ParticipantCore& operator=(const ParticipantCore&) = delete;

  const Id& id() const noexcept { return surroundings_.self; }
  const Domain& domain() const noexcept { return domain_; }
  memory::Arena& arena() const noexcept { return *surroundings_.arena; }
  memory::CudaMemory& cuda() const noexcept { return *surroundings_.cuda; }
  std::uint32_t fork_generation() const noexcept { return fork_generation_; }

  std::shared_ptr<PublisherCore> add_publisher(const std::string& topic,
                                               const PublisherOptions& options);
  void close_publisher(const std::shared_ptr<PublisherCore>& publisher);
  // Returns the name of the marker, which is to be removed at the end.
  std::string advertise_node(const std::string& escaped_name, const std::string& name);
  std::shared_ptr<SubscriberCore> add_subscriber(const std::string& topic,
                                                 const SubscriberOptions& options);
  void close_subscriber(const std::shared_ptr<SubscriberCore>& subscriber);

  // The subscriber's, which is looked after from now on.
  int event_descriptor(const std::shared_ptr<SubscriberCore>& subscriber);

  // See share.hpp. The number closes it.
  Shares::Name share(const PreparedSample& sample, std::uint32_t uses,
                     Shares::Clock::time_point until);
  void close_share(std::uint64_t number) noexcept { surroundings_.shares.close(number); }
  bool shares(std::uint64_t number) const { return surroundings_.shares.open(number); }

  // How what is shared or queued here is copied.
  CopyTuner& copies() noexcept { return copies_; }
  // Of queues, whoever is their host.
  TakenItems& taken_items() noexcept { return taken_items_; }
  // Has `task` done on the service thread.
  void post(std::function<void(Surroundings&)> task) {
    service_.post([this, task = std::move(task)] { task(surroundings_); });
  }

  const link::LentMemory& lent() const noexcept { return *surroundings_.lent; }
  const std::shared_ptr<DeviceCopier>& copier() const noexcept { return surroundings_.copier; }

  // A block of the arena; takes back what subscribers returned before it gives up.
  memory::BlockRef allocate(std::size_t bytes, memory::PoolId pool);
  // The same of a GPU.
  memory::BlockRef allocate(const Device& device, std::size_t bytes, memory::Grant most);

 private:
  // The participant's socket in the domain; goes with it, or with an attempt to make it.
  struct SocketFile {
    SocketFile(const Domain& in, const Id& self);
    ~SocketFile() {
      domain.remove_file(name);
      domain.remove_if_empty();
    }
    SocketFile(const SocketFile&) = delete;
    SocketFile& operator=(const SocketFile&) = delete;
    const Domain& domain;
    const std::string name;
  };
  struct Published {
    std::weak_ptr<PublisherCore> publisher;
    std::string marker;  // its file
  };
  // On the service thread.
  void listen();
  void watch_domain();
  void keep_files();
  void on_connection();
  void adopt_connection(platform::Fd socket);
  void on_directory_change();
  void scan();
  void join_lost_again();
  std::vector<std::shared_ptr<link::Connected>> estate_of(const Id& owner);
  void end_overdue_shares();
  void claim_for(const std::shared_ptr<SubscriberCore>& subscriber,
                 const std::shared_ptr<link::BorrowerLink>& link, std::uint64_t token,
                 Descriptor descriptor);
  void stage_for(const std::shared_ptr<SubscriberCore>& subscriber,
                 const std::shared_ptr<link::BorrowerLink>& link, std::uint64_t token,
                 std::vector<OutOfReach> tensors, Claimed claimed);
  void drop_ended_connections();
  void drop_silent_connections();
  void look_after_events();
  void look_after_children();
  void tell_ended();
  void retire_idle();
  void tell_retired();
  void look_after_exports();

  template <typename Allocate>
  memory::BlockRef take_back_first(Allocate allocate);
  std::vector<std::shared_ptr<PublisherCore>> publishers();
  std::shared_ptr<PublisherCore> find_publisher(std::uint32_t number);

  const std::uint32_t fork_generation_;
  const Domain domain_;
  Service service_;
  Surroundings surroundings_;
  const SocketFile socket_file_;
  platform::Fd listener_;
  ino_t socket_inode_ = 0;
  Service::Tag listener_tag_ = 0;
  std::uint64_t watched_place_;  // of the domain's moves: the place that is watched
  platform::DirectoryWatch watch_;
  Service::Tag watch_tag_ = 0;
  int failures_ = 0;  // to keep our files there, in a row

  StaleFiles stale_files_;
  Service::Errand& keeping_files_ = service_.add_errand([this] { keep_files(); });
  Service::Errand& scanning_ = service_.add_errand([this] { scan(); });
  Subscriptions subscriptions_;
  Owners owners_;

  CopyTuner copies_;  // of these
  TakenItems taken_items_;

  std::mutex mutex_;
  std::map<std::uint32_t, Published> publishers_;
  std::uint32_t next_publisher_ = 1;

  platform::Fd newcomer_;  // accepted; there was no room for its connection yet
  std::vector<std::unique_ptr<OwnerConnection>> owner_connections_;
  std::vector<std::uint32_t> untold_;  // segments that went
  memory::CudaExports::Stats exports_seen_;
  std::chrono::milliseconds exports_look_{1};  // until the next
  std::chrono::milliseconds children_look_{};  // until the next

  Service::Errand& dropping_idle_ = service_.add_errand([this] { owners_.drop_idle(); });
  Service::Errand& dropping_ended_ = service_.add_errand([this] { drop_ended_connections(); });
  Service::Errand& joining_again_ = service_.add_errand([this] { join_lost_again(); });
  Service::Errand& dropping_silent_ = service_.add_errand([this] { drop_silent_connections(); });
  Service::Errand& looking_after_children_ = service_.add_errand([this] { look_after_children(); });
  Service::Errand& looking_after_events_ = service_.add_errand([this] { look_after_events(); });
  Service::Errand& telling_ended_ = service_.add_errand([this] { tell_ended(); });
  Service::Errand& ending_shares_ = service_.add_errand([this] { end_overdue_shares(); });
  Service::Errand& delivering_copies_ =
      service_.add_errand([this] { surroundings_.host_copies->deliver(); });
  Service::Errand& looking_after_exports_ = service_.add_errand([this] { look_after_exports(); });
  Service::Errand& retiring_idle_ = service_.add_errand([this] { retire_idle(); });
  Service::Errand& telling_retired_ = service_.add_errand([this] { tell_retired(); });
};

}  // namespace tensorbus::bus
