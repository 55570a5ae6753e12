#include "tensorbus/bus/participant/participant_core.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "tensorbus/bus/domain/advertisement.hpp"
#include "tensorbus/bus/domain/topic_name.hpp"
#include "tensorbus/bus/queue/queue_host.hpp"
#include "tensorbus/bus/session/host_copy_request.hpp"
#include "tensorbus/bus/session/lease_acquisition.hpp"
#include "tensorbus/platform/error.hpp"
#include "tensorbus/platform/fork/inherited.hpp"
#include "tensorbus/platform/fork/lineage.hpp"
#include "tensorbus/platform/fork_guard.hpp"
#include "tensorbus/platform/kill_point.hpp"

namespace tensorbus::bus {
namespace {

using namespace std::chrono_literals;

constexpr auto kRetryDelay = 20ms;      // a backlog was full
constexpr auto kRejoinDelay = 200ms;    // an owner hung up and lives, or was short of something
constexpr auto kNoRoomDelay = 1s;       // there was no room for a connection to an owner
constexpr auto kGreetingDelay = 5s;     // for who connects and does not say who it is
constexpr auto kShortLook = 10ms;       // at exported memory that comes and goes
constexpr auto kLongLook = 500ms;       // at such that does not
constexpr auto kChildLook = 1ms;        // at a child that is just ending
constexpr auto kLongChildLook = 100ms;  // at one that has closed its descriptors, and goes on

// What the options say, else the environment, else 0.
std::size_t budget(std::size_t option, const char* variable) {
  const char* const text = std::getenv(variable);
  if (option != 0 || text == nullptr) return option;
  char* end = nullptr;
  const std::size_t bytes = std::strtoull(text, &end, 10);
  if (*text == '\0' || *end != '\0')
    throw Error(Code::kInvalidArgument,
                std::string(variable) + ": expected a number of bytes, got \"" + text + "\"");
  return bytes;
}

memory::ArenaOptions arena_options(const ParticipantOptions& options) {
  return {options.segment_bytes, budget(options.budget_bytes, "TENSORBUS_BUDGET"),
          options.warm_bytes};
}

memory::DeviceArenaOptions device_options(const ParticipantOptions& options) {
  return {options.segment_bytes, budget(options.cuda_budget_bytes, "TENSORBUS_CUDA_BUDGET")};
}

// `least` is 0 where that means "as the publisher says".
void check_option(const char* name, std::uint32_t value, std::uint32_t least, std::uint32_t most) {
  if (value < least || value > most)
    throw Error(Code::kInvalidArgument, std::string(name) + "=" + std::to_string(value) +
                                            ": expected " + std::to_string(least) + " to " +
                                            std::to_string(most));
}

}  // namespace

ParticipantCore::SocketFile::SocketFile(const Domain& in, const Id& self)
    : domain(in), name(socket_name(self)) {}

ParticipantCore::ParticipantCore(const ParticipantOptions& options)
    : fork_generation_(platform::fork_generation()),
      domain_(options.domain),
      context_{Id::random(), loop_, memory::Arena::create(arena_options(options)),
               std::make_shared<memory::DeviceMemory>(device_options(options), context_.self),
               std::make_shared<link::WakePage>()},
      socket_file_(domain_, context_.self),
      listener_(domain_.listen(context_.self)),
      socket_inode_(domain_.inode_of(socket_file_.name)),
      watched_place_(domain_.moves()),
      watch_(domain_.watch_place()),
      stale_files_(loop_, domain_),
      outbound_(context_, domain_, stale_files_, scanning_,
                [this](const std::shared_ptr<SubscriberCore>& subscriber, const Id& owner,
                       std::uint32_t publisher) {
                  subscriptions_.lose(subscriber, {owner, publisher});
                  loop_.schedule(joining_again_, kRejoinDelay);  // not at once: it had its reason
                }) {
  context_.reach = [this](const Id& other, const ParticipantContext::OnReached& on_reached) {
    outbound_.reach(other, on_reached);
  };
  context_.orphaned_memory_of = [this](const Id& owner) { return orphaned_memory_of(owner); };
  context_.is_dead = [this](const Id& other) { return domain_.is_dead(other); };
  context_.queues = std::make_shared<QueueHost>(context_);
  context_.host_copies = std::make_unique<memory::HostCopies>(
      context_.arena, context_.device_memory, [this] { loop_.schedule(delivering_copies_); });
  context_.copier = std::make_shared<DeviceCopier>(context_.device_memory, [this] {
    for (const auto& publisher : publishers()) publisher->drain_if_idle();
  });
  domain_.sweep(id());
  arena().on_retired([this] { loop_.schedule(telling_retired_); });
  arena().files().on_retired([this] { loop_.schedule(telling_retired_); });
  device_memory().on_idle(
      [this] { loop_.schedule(retiring_idle_, memory::DeviceArena::kIdle + 100ms); });
  device_memory().exports().on_first(
      [this] { loop_.schedule(looking_after_exports_, kShortLook); });
  (void)platform::own_lineage();  // it is made once, and not with the first connection
  loop_.watch(platform::children_descriptor(), [this] {
    children_look_ = kChildLook;
    look_after_children();
  });
  loop_.schedule(looking_after_children_);  // others, which are gone, may have looked before
  listener_tag_ = loop_.watch(listener_.get(), [this] { on_connection(); });
  watch_domain();
  (void)domain_.try_lock();
  loop_.schedule(keeping_files_);  // what was removed before we watched
  loop_.start();
}

ParticipantCore::~ParticipantCore() {
  loop_.stop();
  context_.copier->close();
  arena().close();
  device_memory().close();
  domain_.remove_file(socket_file_.name);
  for (const auto& [number, published] : publishers_) {
    if (const auto publisher = published.publisher.lock()) publisher->close();
    domain_.remove_file(published.marker);
  }
  for (const auto& connection : inbound_) connection->end();
  outbound_.end();
  context_.queues.reset();
  context_.host_copies.reset();
}

std::shared_ptr<PublisherCore> ParticipantCore::add_publisher(const std::string& topic,
                                                              const PublisherOptions& options) {
  const std::string escaped = escape_topic(topic);
  check_option("depth", options.depth, 1, link::kMaxDepth);
  std::shared_ptr<PublisherCore> publisher;
  std::string marker;
  {
    const platform::MutexLock lock(mutex_);
    std::erase_if(publishers_, [](const auto& item) { return item.second.publisher.expired(); });
    const std::uint32_t number = next_publisher_++;
    marker = marker_name(escaped, id(), number);
    publisher =
        std::make_shared<PublisherCore>(topic, number, options, context_.arena, context_.wake_page);
    publisher->on_link_broken([this] { loop_.schedule(telling_ended_); });
    publishers_.emplace(number, Published{publisher, marker});
  }
  // Only now can it be found: whoever sees the marker finds the publisher.
  domain_.add_marker(marker, encode({static_cast<std::uint32_t>(::getpid()), topic, options.node,
                                     options.type.definition()}));
  return publisher;
}

std::string ParticipantCore::advertise_node(const std::string& escaped_name,
                                            const std::string& name) {
  std::string marker;
  {
    const platform::MutexLock lock(mutex_);
    marker = marker_name(escaped_name, id(), next_publisher_++);
  }
  domain_.add_marker(marker, encode({static_cast<std::uint32_t>(::getpid()), name, {}, {}}));
  return marker;
}

void ParticipantCore::close_publisher(const std::shared_ptr<PublisherCore>& publisher) {
  if (!publisher->close()) return;
  {
    const platform::MutexLock lock(mutex_);
    const auto closed = publishers_.extract(publisher->number());
    if (closed) domain_.remove_file(closed.mapped().marker);
  }
  platform::kill_point("close.marker_removed");
  loop_.schedule(telling_ended_);
}

std::shared_ptr<SubscriberCore> ParticipantCore::add_subscriber(const std::string& topic,
                                                                const SubscriberOptions& options) {
  check_option("depth", options.depth, 0, link::kMaxDepth);
  check_option("max_held", options.max_held, 1, link::kMaxHeld - link::kMaxDepth);
  auto subscriber =
      std::make_shared<SubscriberCore>(topic, options, context_.wake_page, context_.copier);
  subscriber->claim_by(
      [this, weak = std::weak_ptr(subscriber)](const std::shared_ptr<link::BorrowerLink>& link,
                                               std::uint64_t token, Descriptor descriptor) {
        if (const auto core = weak.lock()) claim_for(core, link, token, std::move(descriptor));
      });
  subscriber->stage_by([this, weak = std::weak_ptr(subscriber)](
                           const std::shared_ptr<link::BorrowerLink>& link, std::uint64_t token,
                           std::vector<OutOfReach> tensors, AcquiredLeases claimed) {
    if (const auto core = weak.lock())
      stage_for(core, link, token, std::move(tensors), std::move(claimed));
  });
  subscriber->on_links_gone([this] { loop_.schedule(dropping_idle_); });
  subscriptions_.add(subscriber, escape_topic(topic));
  loop_.schedule(scanning_);
  return subscriber;
}

void ParticipantCore::close_subscriber(const std::shared_ptr<SubscriberCore>& subscriber) {
  if (!subscriber->close()) return;
  subscriptions_.remove(subscriber);
  loop_.schedule(dropping_idle_);
}

int ParticipantCore::event_descriptor(const std::shared_ptr<SubscriberCore>& subscriber) {
  const int fd = subscriber->event_descriptor();
  loop_.schedule(looking_after_events_, link::kParkSlice);
  return fd;
}

// All participants of a process do, for all of it.
void ParticipantCore::look_after_children() {
  if (!platform::look_after_children()) return;
  loop_.schedule(looking_after_children_, children_look_);
  children_look_ =
      std::clamp<std::chrono::milliseconds>(2 * children_look_, kChildLook, kLongChildLook);
}

void ParticipantCore::look_after_events() {
  if (subscriptions_.look_after_events()) loop_.schedule(looking_after_events_, link::kParkSlice);
}

template <typename Allocate>
memory::BlockRef ParticipantCore::take_back_first(Allocate allocate) {
  try {
    return allocate();
  } catch (const Error& error) {
    if (error.code() != Code::kOutOfMemory) throw;
  }
  for (const auto& publisher : publishers()) publisher->drain();
  return allocate();
}

SampleBuilder::Supplies ParticipantCore::supplies(memory::Grant grant) {
  return {arena(),
          device_memory(),
          [this, grant](std::size_t bytes) { return allocate(bytes, grant); },
          [this, grant](const Device& device, std::size_t bytes) {
            return allocate(device, bytes, grant);
          },
          copies_,
          grant,
          id(),
          lent(),
          true};
}

memory::BlockRef ParticipantCore::allocate(std::size_t bytes, memory::PoolId pool) {
  return take_back_first([&] { return arena().allocate(bytes, pool); });
}

memory::BlockRef ParticipantCore::allocate(const Device& device, std::size_t bytes,
                                           memory::Grant most) {
  const auto& gpu = platform::Gpu::at(device.ordinal);
  return take_back_first([&] { return device_memory().allocate(gpu, bytes, most); });
}

std::vector<std::shared_ptr<PublisherCore>> ParticipantCore::publishers() {
  const platform::MutexLock lock(mutex_);
  std::vector<std::shared_ptr<PublisherCore>> living;
  for (const auto& [number, published] : publishers_)
    if (auto publisher = published.publisher.lock()) living.push_back(std::move(publisher));
  return living;
}

std::shared_ptr<PublisherCore> ParticipantCore::find_publisher(std::uint32_t number) {
  const platform::MutexLock lock(mutex_);
  const auto found = publishers_.find(number);
  return found == publishers_.end() ? nullptr : found->second.publisher.lock();
}

// Who connects while descriptors or memory are short waits, in the backlog or here. Who would take
// what is left to the program, or to others, is told so.
void ParticipantCore::on_connection() {
  while (true) {
    if (!newcomer_) newcomer_ = platform::accept_from(listener_.get());
    if (!newcomer_) return;
    try {
      context_.peers->require_descriptors(0);
      adopt_connection(platform::duplicate(newcomer_.get()));
    } catch (const memory::PeerLimit& limit) {
      link::turn_away(newcomer_.get(), limit.what());
    }
    newcomer_.reset();
  }
}

void ParticipantCore::adopt_connection(platform::Fd socket) {
  try {
    inbound_.push_back(std::make_unique<InboundConnection>(
        context_, std::move(socket),
        [this](std::uint32_t number) { return find_publisher(number); },
        [this](InboundConnection& connection, const std::string& why) {
          connection.hang_up(why);
          if (const auto source = connection.exchange()->source())
            stale_files_.suspect(source->participant);
          loop_.schedule(dropping_ended_);  // not at once: the connection is the one that calls us
        }));
    loop_.schedule(dropping_silent_, kGreetingDelay);
  } catch (const Error& error) {
    if (error.code() == Code::kOutOfMemory) throw;
    // Another user's process: the socket closes, and it sees that.
  }
}

void ParticipantCore::drop_ended_connections() {
  std::erase_if(inbound_, [](const auto& connection) { return connection->ended(); });
}

void ParticipantCore::drop_silent_connections() {
  const auto overdue = std::chrono::steady_clock::now() - kGreetingDelay;
  bool silent = false;
  std::erase_if(inbound_, [&](const auto& connection) {
    if (connection->greeted()) return false;
    silent = silent || connection->since() > overdue;
    return connection->since() <= overdue;
  });
  if (silent) loop_.schedule(dropping_silent_, kGreetingDelay / 5);
}

// Joins every subscriber with every publisher of its topic that it has not joined yet. Meets it a
// limit, the service has it done again.
void ParticipantCore::scan() {
  if (watch_.fd() < 0) watch_domain();
  if (subscriptions_.empty()) return;
  std::vector<std::string> files;
  try {
    files = domain_.list();
  } catch (const Error& error) {
    if (error.code() == Code::kOutOfMemory) throw;
    return loop_.schedule(scanning_, kRetryDelay);
  }
  if (!subscriptions_.join(files, outbound_)) loop_.schedule(scanning_, kNoRoomDelay);
}

void ParticipantCore::join_lost_again() {
  subscriptions_.forget_lost();
  scan();
}

// Called under the subscriber's mutex.
void ParticipantCore::claim_for(const std::shared_ptr<SubscriberCore>& subscriber,
                                const std::shared_ptr<link::BorrowerLink>& link,
                                std::uint64_t token, Descriptor descriptor) {
  loop_.post([this, weak = std::weak_ptr(subscriber), link, token,
              descriptor = std::move(descriptor)] {
    const auto claim = [this, weak, link, token,
                        descriptor](const std::shared_ptr<PeerSession>& sender) {
      const auto core = weak.lock();
      if (!core) return;
      LeaseAcquisition::start(context_, descriptor, {sender, link->id(), token}, core->asks_for(),
                              [weak, link, token](std::variant<AcquiredLeases, Error> result) {
                                if (const auto living = weak.lock())
                                  living->claimed(link, token, std::move(result));
                              });
    };
    outbound_.reach(link->source()->participant, claim);
  });
}

// The same.
void ParticipantCore::stage_for(const std::shared_ptr<SubscriberCore>& subscriber,
                                const std::shared_ptr<link::BorrowerLink>& link,
                                std::uint64_t token, std::vector<OutOfReach> tensors,
                                AcquiredLeases claimed) {
  loop_.post([this, weak = std::weak_ptr(subscriber), link, token, tensors = std::move(tensors),
              claimed = std::move(claimed)]() mutable {
    HostCopyRequest::start(context_, tensors, std::move(claimed),
                           [weak, link, token](std::variant<AcquiredLeases, Error> result) {
                             if (const auto living = weak.lock())
                               living->claimed(link, token, std::move(result));
                           });
  });
}

std::vector<std::shared_ptr<link::PeerMemory>> ParticipantCore::orphaned_memory_of(
    const Id& owner) {
  if (!domain_.is_dead(owner)) return {};
  return outbound_.orphaned_memory_of(owner);
}

Shares::Name ParticipantCore::share(const SampleBuilder& sample, std::uint32_t uses,
                                    Shares::Clock::time_point until) {
  const memory::Grant grant = sample.most_granted();
  const Shares::Added added =
      context_.shares.add({sample.entry(), sample.issued(), grant}, uses, until);
  if (added.ends_first) loop_.schedule(ending_shares_);
  return added.name;
}

void ParticipantCore::end_overdue_shares() {
  const auto next = context_.shares.end_overdue();
  if (!next) return;
  const auto rest = std::chrono::ceil<std::chrono::milliseconds>(*next - Shares::Clock::now());
  loop_.schedule(ending_shares_, std::clamp<std::chrono::milliseconds>(rest, 1ms, 1h));
}

void ParticipantCore::tell_ended() {
  for (const auto& connection : inbound_) connection->tell_ended();
}

// Subscribers return what they had without telling anybody, and others' allocators wait for it.
void ParticipantCore::look_after_exports() {
  memory::DeviceExports& exports = device_memory().exports();
  for (const auto& publisher : publishers()) publisher->drain_if_idle();
  exports.retire_idle(memory::DeviceExports::Clock::now());
  const auto now = exports.stats();
  const bool moved = now.lent != exports_seen_.lent || now.blocks != exports_seen_.blocks;
  exports_look_ =
      moved ? kShortLook : std::min<std::chrono::milliseconds>(2 * exports_look_, kLongLook);
  exports_seen_ = now;
  loop_.schedule(telling_retired_);
  if (now.segments != 0) loop_.schedule(looking_after_exports_, exports_look_);
}

void ParticipantCore::retire_idle() {
  for (const auto& publisher : publishers()) publisher->drain_if_idle();
  device_memory().retire_idle(memory::DeviceArena::Clock::now());
  tell_retired();
}

void ParticipantCore::tell_retired() {
  while (true) {
    if (untold_.empty()) untold_ = arena().take_retired();
    if (untold_.empty()) untold_ = arena().files().take_retired();
    if (untold_.empty()) untold_ = device_memory().take_retired();
    if (untold_.empty()) return;
    for (const auto& connection : inbound_) connection->tell_retired(untold_.back());
    outbound_.tell_retired(untold_.back());
    untold_.pop_back();
  }
}

}  // namespace tensorbus::bus
