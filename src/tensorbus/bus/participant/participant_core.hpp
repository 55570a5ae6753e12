#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
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
#include "tensorbus/bus/participant/publishers.hpp"
#include "tensorbus/bus/participant/taken_items.hpp"
#include "tensorbus/bus/publish/sample_builder.hpp"
#include "tensorbus/bus/publish/sender.hpp"
#include "tensorbus/bus/queue/kept_messages.hpp"
#include "tensorbus/bus/session/participant_context.hpp"
#include "tensorbus/bus/subscribe/receiver.hpp"
#include "tensorbus/platform/mutex.hpp"

namespace tensorbus::bus {

// A process on one domain: its endpoints, its arena, its connections, and the event loop that
// serves them. Shared by tensorbus::Participant and the endpoints. Thread-safe: locks are taken in
// the order of docs/internals/threading.md; connections belong to the event loop and need no lock.
class ParticipantCore {
 public:
  explicit ParticipantCore(const ParticipantOptions& options);
  ~ParticipantCore();
  ParticipantCore(const ParticipantCore&) = delete;
  ParticipantCore& operator=(const ParticipantCore&) = delete;

  const Id& id() const noexcept { return context_.self; }
  const Domain& domain() const noexcept { return domain_; }
  // Grows with each scan of the domain directory: after each change, and also without one, because
  // a change may have been missed. Any thread.
  std::uint64_t domain_changes() const noexcept {
    return domain_changes_.load(std::memory_order_acquire);  // pairs with scan()
  }
  // Returns a descriptor to poll: readable when domain_changes() may have grown since it was
  // cleared.
  int domain_descriptor() { return domain_event_.descriptor(); }
  void clear_domain_descriptor() noexcept { domain_event_.clear(); }
  // Returns a descriptor to poll: readable when publishers of this participant have gained or lost
  // subscribers since take_changed_publishers(), which returns the numbers of these publishers.
  int subscribers_descriptor() { return subscribers_event_.descriptor(); }
  std::vector<std::uint32_t> take_changed_publishers();
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

  // Returns the subscriber's descriptor, and calls its look_after_event() from now on.
  int event_descriptor(const std::shared_ptr<Receiver>& subscriber);

  // See share.hpp. close_share() takes the number in the name.
  Shares::Name share(const SampleBuilder& sample, std::uint32_t uses,
                     Shares::Clock::time_point until, std::uint64_t carrier = 0);
  void close_share(std::uint64_t number) noexcept { context_.shares.close(number); }
  Shares& all_shares() noexcept { return context_.shares; }
  bool shares(std::uint64_t number) const { return context_.shares.open(number); }

  // Returns the items that were taken from queues of any process.
  TakenItems& taken_items() noexcept { return taken_items_; }
  // An object that layers above this one keep for the whole participant. Made by the first call of
  // kept(); every call must name the same type. Lives as long as the participant.
  struct Kept {
    virtual ~Kept() = default;
    // Called when a session with a peer has ended. On the event loop only.
    virtual void on_session_end() {}
  };
  template <typename T>
  T& kept() {
    const platform::MutexLock lock(kept_mutex_);
    if (!kept_) kept_ = std::make_unique<T>(*this);
    return static_cast<T&>(*kept_);
  }
  Kept* kept_or_null() {
    const platform::MutexLock lock(kept_mutex_);
    return kept_.get();
  }
  // Runs `task` on the event loop.
  void post(std::function<void(ParticipantContext&)> task) {
    loop_.post([this, task = std::move(task)] { task(context_); });
  }

  // Like post(), but in the calling thread where that is possible at once
  // (EventLoop::run_or_post()).
  void run_or_post(std::function<void(ParticipantContext&)> task, bool after_messages = false) {
    loop_.run_or_post([this, task = std::move(task)] { task(context_); }, after_messages);
  }
  // See EventLoop::run_now().
  template <typename Work>
  bool run_now(const Work& work, bool after_messages = false) {
    const auto in_turn = [&] { work(context_); };
    return loop_.run_now(in_turn, after_messages);
  }
  // See EventLoop::run_in_turn().
  template <typename Work>
  bool run_in_turn(const Work& work) {
    const auto in_turn = [&] { work(context_); };
    return loop_.run_in_turn(in_turn);
  }
  // For threads that wait for the event loop.
  EventLoop& loop() noexcept { return loop_; }

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
  void tell_ended();
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
  // A publisher was broken off, and its subscribers are not notified yet. Release and acquire: the
  // closing precedes the flag.
  std::atomic<bool> broken_off_unreported_{false};
  Subscriptions subscriptions_;
  InboundConnections inbound_;
  OutboundConnections outbound_;
  DomainPresence presence_;
  MemoryUpkeep memory_upkeep_{context_, publishers_, inbound_, outbound_};

  TakenItems taken_items_;
  platform::Mutex kept_mutex_;
  std::unique_ptr<Kept> kept_ TB_GUARDED_BY(kept_mutex_);
  KeptMessages kept_messages_{context_};

  std::chrono::milliseconds children_look_{};  // until the next check

  EventLoop::Task& sending_delayed_ = loop_.add_task([this] { context_.delayed->flush(); });
  EventLoop::Task& dropping_idle_ = loop_.add_task([this] { outbound_.drop_idle(); });
  EventLoop::Task& joining_again_ = loop_.add_task([this] { join_lost_again(); });
  EventLoop::Task& looking_after_children_ = loop_.add_task([this] { look_after_children(); });
  EventLoop::Task& looking_after_events_ = loop_.add_task([this] { look_after_events(); });
  EventLoop::Task& telling_ended_ = loop_.add_task([this] { tell_ended(); });
  EventLoop::Task& ending_shares_ = loop_.add_task([this] { end_overdue_shares(); });
  EventLoop::Task& delivering_copies_ = loop_.add_task([this] { context_.host_copies->deliver(); });
};

}  // namespace tensorbus::bus
