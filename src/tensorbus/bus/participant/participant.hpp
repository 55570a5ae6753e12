#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tensorbus/values/device.hpp>
#include <tensorbus/values/inspected.hpp>
#include <tensorbus/values/options.hpp>
#include <tensorbus/values/stats.hpp>
#include <utility>
#include <vector>

#include "tensorbus/bus/connection/inbound_connections.hpp"
#include "tensorbus/bus/connection/outbound_connections.hpp"
#include "tensorbus/bus/connection/subscriptions.hpp"
#include "tensorbus/bus/domain/domain.hpp"
#include "tensorbus/bus/domain/stale_files.hpp"
#include "tensorbus/bus/event_loop/change_event.hpp"
#include "tensorbus/bus/event_loop/event_loop.hpp"
#include "tensorbus/bus/participant/domain_presence.hpp"
#include "tensorbus/bus/participant/drop_log.hpp"
#include "tensorbus/bus/participant/memory_supply.hpp"
#include "tensorbus/bus/participant/memory_upkeep.hpp"
#include "tensorbus/bus/participant/participant_ref.hpp"
#include "tensorbus/bus/participant/publishers.hpp"
#include "tensorbus/bus/publish/sample_builder.hpp"
#include "tensorbus/bus/publish/sender.hpp"
#include "tensorbus/bus/queue/kept_messages.hpp"
#include "tensorbus/bus/queue_client/queue_rings.hpp"
#include "tensorbus/bus/session/participant_context.hpp"
#include "tensorbus/bus/subscribe/receiver.hpp"
#include "tensorbus/platform/export.hpp"

namespace tensorbus::bus {

// A process on one domain: its endpoints, its arena, its connections, and the event loop that
// serves them. Made by make_participant() and shared_participant(). Thread-safe: locks are taken in
// the order of docs/internals/threading.md; connections belong to the event loop and need no lock.
class Participant {
 public:
  explicit Participant(const ParticipantOptions& options);
  ~Participant();
  Participant(const Participant&) = delete;
  Participant& operator=(const Participant&) = delete;

  const Id& id() const noexcept { return context_.self; }
  const Domain& domain() const noexcept { return domain_; }
  // Returns a number that grows with each scan of the domain directory. Scans follow changes of the
  // directory. They also occur without a change, because a change may have been missed. Any thread.
  std::uint64_t domain_changes() const noexcept {
    return domain_changes_.load(std::memory_order_acquire);  // pairs with scan()
  }
  // Returns a descriptor to poll: readable when domain_changes() may have grown since it was
  // cleared.
  TENSORBUS_API int domain_descriptor();
  TENSORBUS_API void clear_domain_descriptor() noexcept;
  // Returns a descriptor to poll: readable when publishers of this participant have gained or lost
  // subscribers since take_changed_publishers(), which returns the numbers of these publishers.
  TENSORBUS_API int subscribers_descriptor();
  TENSORBUS_API std::vector<std::uint32_t> take_changed_publishers();
  TENSORBUS_API std::string domain_path() const;
  // Returns the use of the participant's memory on a device; on a GPU all zero before the first
  // loan.
  TENSORBUS_API ArenaUse memory_use(const Device& device = Device::host()) const;
  memory::Arena& arena() const noexcept { return *context_.arena; }
  device::DeviceMemory& device_memory() const noexcept { return *context_.device_memory; }
  MemorySupply& memory() noexcept { return memory_; }
  std::uint32_t fork_generation() const noexcept { return fork_generation_; }

  std::shared_ptr<Sender> add_publisher(const std::string& topic, const PublisherOptions& options,
                                        link::MirrorOrigin origin = {}, std::uint64_t first = 0);
  void close(const std::shared_ptr<Sender>& publisher, bool broken_off = false);
  // Returns the name of the marker, which the caller must remove at the end.
  std::string advertise_node(const std::string& escaped_name, const std::string& name);
  std::shared_ptr<Receiver> add_subscriber(const std::string& topic,
                                           const SubscriberOptions& options,
                                           const std::optional<PublisherName>& only = {});
  void close(const std::shared_ptr<Receiver>& subscriber);

  // Returns the subscriber's descriptor. From then on, calls its look_after_event() periodically.
  int event_descriptor(const std::shared_ptr<Receiver>& subscriber);

  // See share.hpp. close_share() takes the number in the name.
  Shares::Name share(const SampleBuilder& sample, std::uint32_t uses,
                     Shares::Clock::time_point until, std::uint64_t carrier = 0);
  void close_share(std::uint64_t number) noexcept { context_.shares.close(number); }
  Shares& all_shares() noexcept { return context_.shares; }
  bool shares(std::uint64_t number) const { return context_.shares.open(number); }

  // Returns the ways to put items into a queue, and to get items from it, without a request.
  std::shared_ptr<const QueueRings> queue_rings(const QueueAddress& address) {
    return queue_rings_.of(address);
  }
  ParticipantContext& context() noexcept { return context_; }
  const link::LeaseIndex& lent() const noexcept { return *context_.lent; }
  const std::shared_ptr<DeviceCopier>& copier() const noexcept { return context_.copier; }

 private:
  // On the event loop only, except acquire_for() and stage_for().
  [[gnu::cold]] ParticipantReport report();
  void scan();
  void join_lost_again();
  std::vector<std::shared_ptr<link::PeerMemory>> orphaned_memory_of(const Id& owner);
  void end_overdue_shares();
  void acquire_for(const std::shared_ptr<Receiver>& subscriber,
                   const std::shared_ptr<link::BorrowerLink>& link, std::uint64_t token,
                   tensor::Descriptor descriptor);
  void acquire_later(const std::shared_ptr<Receiver>& subscriber,
                     const std::shared_ptr<link::BorrowerLink>& link, std::uint64_t token,
                     tensor::Descriptor descriptor, const Error& why);
  void stage_for(const std::shared_ptr<Receiver>& subscriber,
                 const std::shared_ptr<link::BorrowerLink>& link, std::uint64_t token,
                 std::vector<OutOfReach> tensors, AcquiredLeases acquired);
  void look_after_events();
  void look_after_children();
  void notify_ended();
  std::shared_ptr<Sender> find_publisher(std::uint32_t number);

  const std::uint32_t fork_generation_;
  const platform::Clock::time_point since_ = platform::Clock::now();
  const Domain domain_;
  EventLoop loop_;
  ParticipantContext context_;

  std::atomic<std::uint64_t> domain_changes_ = 0;  // written on the event loop
  ChangeEvent domain_event_;
  ChangeEvent subscribers_event_;
  StaleFiles stale_files_;
  EventLoop::Task& scanning_ = loop_.add_task([this] { scan(); });
  Publishers publishers_;
  MemorySupply memory_{context_, publishers_};
  DropLog drop_log_{loop_, context_.log, publishers_};
  // True while subscribers of a publisher that was broken off are not notified yet. Release and
  // acquire: the publisher is closed before the flag is set.
  std::atomic<bool> broken_off_unreported_{false};
  Subscriptions subscriptions_;
  InboundConnections inbound_;
  OutboundConnections outbound_;
  DomainPresence presence_;
  MemoryUpkeep memory_upkeep_{context_, publishers_, inbound_, outbound_};

  KeptQueueRings queue_rings_{context_};
  KeptMessages kept_messages_{context_};

  std::chrono::milliseconds children_look_{};  // until the next check

  EventLoop::Task& sending_delayed_ = loop_.add_task([this] { context_.delayed->flush(); });
  EventLoop::Task& dropping_idle_ = loop_.add_task([this] { outbound_.drop_idle(); });
  EventLoop::Task& joining_again_ = loop_.add_task([this] { join_lost_again(); });
  EventLoop::Task& looking_after_children_ = loop_.add_task([this] { look_after_children(); });
  EventLoop::Task& looking_after_events_ = loop_.add_task([this] { look_after_events(); });
  EventLoop::Task& notifying_ended_ = loop_.add_task([this] { notify_ended(); });
  EventLoop::Task& ending_shares_ = loop_.add_task([this] { end_overdue_shares(); });
  EventLoop::Task& delivering_copies_ = loop_.add_task([this] { context_.host_copies->deliver(); });
};

}  // namespace tensorbus::bus
