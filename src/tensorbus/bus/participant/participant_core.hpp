#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tensorbus/inspected.hpp>
#include <tensorbus/options.hpp>
#include <tensorbus/stats.hpp>
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
#include "tensorbus/bus/participant/publishers.hpp"
#include "tensorbus/bus/participant/taken_items.hpp"
#include "tensorbus/bus/publish/publisher_core.hpp"
#include "tensorbus/bus/publish/sample_builder.hpp"
#include "tensorbus/bus/queue/kept_messages.hpp"
#include "tensorbus/bus/session/participant_context.hpp"
#include "tensorbus/bus/subscribe/subscriber_core.hpp"
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
  std::uint32_t fork_generation() const noexcept { return fork_generation_; }

  std::shared_ptr<PublisherCore> add_publisher(const std::string& topic,
                                               const PublisherOptions& options,
                                               link::MirrorOrigin origin = {},
                                               std::uint64_t first = 0);
  void close(const std::shared_ptr<PublisherCore>& publisher, bool broken_off = false);
  // Returns the name of the marker, which the caller must remove at the end.
  std::string advertise_node(const std::string& escaped_name, const std::string& name);
  std::shared_ptr<SubscriberCore> add_subscriber(const std::string& topic,
                                                 const SubscriberOptions& options,
                                                 const std::optional<PublisherName>& only = {});
  void close(const std::shared_ptr<SubscriberCore>& subscriber);

  // Returns the subscriber's descriptor, and calls its look_after_event() from now on.
  int event_descriptor(const std::shared_ptr<SubscriberCore>& subscriber);

  // See share.hpp. close_share() takes the number in the name.
  Shares::Name share(const SampleBuilder& sample, std::uint32_t uses,
                     Shares::Clock::time_point until, std::uint64_t carrier = 0);
  void close_share(std::uint64_t number) noexcept { context_.shares.close(number); }
  Shares& all_shares() noexcept { return context_.shares; }
  bool shares(std::uint64_t number) const { return context_.shares.open(number); }

  // Returns the supplies for shares and for items of queues.
  SampleBuilder::Supplies supplies(memory::Grant grant);
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
  // For threads that wait for the event loop.
  EventLoop& loop() noexcept { return loop_; }

  const link::LeaseIndex& lent() const noexcept { return *context_.lent; }
  const std::shared_ptr<DeviceCopier>& copier() const noexcept { return context_.copier; }

  // Returns a block of the arena. Drains all publishers before it throws Error(kOutOfMemory).
  memory::BlockRef allocate(std::size_t bytes, memory::PoolId pool);
  // Does the same, but drains only publishers that no other thread uses now, so that it never
  // waits.
  memory::BlockRef allocate_without_waiting(std::size_t bytes, memory::PoolId pool);
  // Returns a block on a GPU, like allocate().
  memory::BlockRef allocate(const Device& device, std::size_t bytes, memory::Grant most);
  // Calls `allocate`, which allocates from the arena. While the arena is full, calls it again
  // whenever memory was freed. Returns kDone, or kInterrupted. Throws what `allocate` throws:
  // ArenaFull after the time-out.
  Outcome when_there_is_room(const platform::StopCondition& stop,
                             const std::function<void()>& allocate);

 private:
  // Allocates memory that subscribers may only read, or also write.
  struct Granting final : SampleBuilder::Allocator {
    ParticipantCore& of;
    const memory::Grant most;
    Granting(ParticipantCore& core, memory::Grant granted) : of(core), most(granted) {}
    memory::BlockRef allocate(std::size_t bytes) const override { return of.allocate(bytes, most); }
    memory::BlockRef allocate_on(const Device& device, std::size_t bytes) const override {
      return of.allocate(device, bytes, most);
    }
  };

  // On the event loop only, except claim_for() and stage_for().
  [[gnu::cold]] ParticipantReport report();
  void scan();
  void join_lost_again();
  std::vector<std::shared_ptr<link::PeerMemory>> orphaned_memory_of(const Id& owner);
  void end_overdue_shares();
  void claim_for(const std::shared_ptr<SubscriberCore>& subscriber,
                 const std::shared_ptr<link::BorrowerLink>& link, std::uint64_t token,
                 Descriptor descriptor);
  void claim_later(const std::shared_ptr<SubscriberCore>& subscriber,
                   const std::shared_ptr<link::BorrowerLink>& link, std::uint64_t token,
                   Descriptor descriptor, const Error& why);
  void stage_for(const std::shared_ptr<SubscriberCore>& subscriber,
                 const std::shared_ptr<link::BorrowerLink>& link, std::uint64_t token,
                 std::vector<OutOfReach> tensors, AcquiredLeases claimed);
  void look_after_events();
  void look_after_children();
  void retire_idle();
  void tell_ended();
  void log_drops();
  void log_drops(const PublisherCore& publisher, const PublisherCore::Dropped& dropped);
  std::shared_ptr<PublisherCore> find_publisher(std::uint32_t number);
  void tell_retired();
  void look_after_exports();

  Outcome wait_until_freed(memory::RoomWait& room, const platform::StopCondition& stop);
  template <typename Allocate>
  memory::BlockRef take_back_first(Allocate allocate);

  const std::uint32_t fork_generation_;
  const platform::Clock::time_point since_ = platform::Clock::now();
  const Granting to_read_{*this, memory::Grant::kRead};
  const Granting to_write_{*this, memory::Grant::kWrite};
  const Domain domain_;
  EventLoop loop_;
  ParticipantContext context_;

  std::atomic<std::uint64_t> domain_changes_ = 0;  // written on the event loop
  ChangeEvent domain_event_;
  ChangeEvent subscribers_event_;
  StaleFiles stale_files_;
  EventLoop::Task& scanning_ = loop_.add_task([this] { scan(); });
  Publishers publishers_;
  // A publisher was broken off, and its subscribers are not notified yet. Release and acquire: the
  // closing precedes the flag.
  std::atomic<bool> broken_off_untold_{false};
  Subscriptions subscriptions_;
  InboundConnections inbound_;
  OutboundConnections outbound_;
  DomainPresence presence_;

  CopyTuner copies_;  // for shares and items of queues
  TakenItems taken_items_;
  platform::Mutex kept_mutex_;
  std::unique_ptr<Kept> kept_ TB_GUARDED_BY(kept_mutex_);
  KeptMessages kept_messages_{context_};

  std::vector<memory::SegmentId> untold_;  // retired segments of which peers must be notified
  device::DeviceExports::Stats exports_seen_;
  std::chrono::milliseconds exports_look_{1};  // until the next check
  std::chrono::milliseconds children_look_{};  // until the next check

  EventLoop::Task& sending_delayed_ = loop_.add_task([this] { context_.delayed->flush(); });
  EventLoop::Task& dropping_idle_ = loop_.add_task([this] { outbound_.drop_idle(); });
  EventLoop::Task& joining_again_ = loop_.add_task([this] { join_lost_again(); });
  EventLoop::Task& looking_after_children_ = loop_.add_task([this] { look_after_children(); });
  EventLoop::Task& looking_after_events_ = loop_.add_task([this] { look_after_events(); });
  std::chrono::steady_clock::time_point drops_logged_until_{};
  EventLoop::Task& logging_drops_ = loop_.add_task([this] { log_drops(); });
  EventLoop::Task& telling_ended_ = loop_.add_task([this] { tell_ended(); });
  EventLoop::Task& ending_shares_ = loop_.add_task([this] { end_overdue_shares(); });
  EventLoop::Task& delivering_copies_ = loop_.add_task([this] { context_.host_copies->deliver(); });
  EventLoop::Task& looking_after_exports_ = loop_.add_task([this] { look_after_exports(); });
  EventLoop::Task& retiring_idle_ = loop_.add_task([this] { retire_idle(); });
  EventLoop::Task& telling_retired_ = loop_.add_task([this] { tell_retired(); });
};

}  // namespace tensorbus::bus
