#include "tensorbus/bus/participant/participant.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "tensorbus/bus/domain/advertisement.hpp"
#include "tensorbus/bus/domain/topic_name.hpp"
#include "tensorbus/bus/queue/queue_server.hpp"
#include "tensorbus/bus/session/host_copy_request.hpp"
#include "tensorbus/bus/session/lease_acquisition.hpp"
#include "tensorbus/bus/trace/tracing.hpp"
#include "tensorbus/link/lease/kept_lease.hpp"
#include "tensorbus/platform/error.hpp"
#include "tensorbus/platform/files/huge_pages.hpp"
#include "tensorbus/platform/fork/inherited.hpp"
#include "tensorbus/platform/fork/lineage.hpp"
#include "tensorbus/platform/fork_guard.hpp"
#include "tensorbus/platform/kill_point.hpp"

namespace tensorbus::bus {
namespace {

using namespace std::chrono_literals;

constexpr auto kRetryDelay = 20ms;      // the directory could not be listed
constexpr auto kRejoinDelay = 200ms;    // an owner hung up but is alive, or lacked a resource
constexpr auto kNoRoomDelay = 1s;       // no room for a connection to an owner
constexpr auto kReturnDelay = 5ms;      // of leases on small items of queues
constexpr auto kChildLook = 1ms;        // for a child that is ending
constexpr auto kLongChildLook = 100ms;  // for a child that closed its descriptors and still runs

// Returns the option, else the value of the environment variable, else 0. An empty variable counts
// as unset.
std::size_t budget(std::size_t option, const char* variable) {
  const char* const text = std::getenv(variable);
  if (option != 0 || text == nullptr || *text == '\0') return option;
  char* end = nullptr;
  const std::size_t bytes = std::strtoull(text, &end, 10);
  if (*end != '\0')
    throw Error(Code::kInvalidArgument,
                std::string(variable) + ": expected a number of bytes, got \"" + text + "\"");
  return bytes;
}

// Returns an empty value if the kernel decides.
std::optional<platform::HugePages> huge_pages_option() {
  const char* const text = std::getenv("TENSORBUS_HUGE_PAGES");
  if (text == nullptr || std::string_view(text) != "0") return std::nullopt;
  return platform::HugePages{.bytes = 0, .everywhere = platform::huge_pages().everywhere};
}

memory::ArenaOptions arena_options(const ParticipantOptions& options) {
  return {options.segment_bytes, budget(options.budget_bytes, "TENSORBUS_BUDGET"),
          options.warm_bytes, huge_pages_option()};
}

device::DeviceArenaOptions device_options(const ParticipantOptions& options) {
  return {options.segment_bytes, budget(options.cuda_budget_bytes, "TENSORBUS_CUDA_BUDGET")};
}

// `least` is 0 where 0 means the publisher's value.
void check_option(const char* name, std::uint32_t value, std::uint32_t least, std::uint32_t most) {
  if (value < least || value > most)
    throw Error(Code::kInvalidArgument, std::string(name) + "=" + std::to_string(value) +
                                            ": expected " + std::to_string(least) + " to " +
                                            std::to_string(most));
}

constexpr std::size_t kMaxMachine = 255;  // bytes of a machine's name

void check_origin(const link::MirrorOrigin& origin) {
  if (origin.machine.empty() && origin.publisher.empty()) return;
  if (origin.machine.empty() || origin.machine.size() > kMaxMachine)
    throw Error(Code::kInvalidArgument, "origin: a machine's name of " +
                                            std::to_string(origin.machine.size()) +
                                            " bytes; expected 1 to " + std::to_string(kMaxMachine));
  if (!parse_publisher_name(origin.publisher))
    throw Error(Code::kInvalidArgument, "origin: \"" + origin.publisher +
                                            "\" is not the name of a publisher, <id>.<number>");
}

}  // namespace

Participant::Participant(const ParticipantOptions& options)
    : fork_generation_(platform::fork_generation()),
      domain_(options.domain),
      context_{Id::random(), loop_, memory::Arena::create(arena_options(options)),
               std::make_shared<device::DeviceMemory>(device_options(options), context_.self),
               std::make_shared<link::WakePage>()},
      stale_files_(loop_, domain_),
      inbound_(context_, stale_files_,
               [this](std::uint32_t number) { return find_publisher(number); }),
      outbound_(context_, domain_, stale_files_, scanning_,
                [this](const std::shared_ptr<Receiver>& subscriber, const Id& owner,
                       std::uint32_t publisher) {
                  subscriptions_.lose(subscriber, {owner, publisher});
                  // Not at once: the cause may last for some time.
                  loop_.schedule(joining_again_, kRejoinDelay);
                }),
      presence_(loop_, domain_, context_.self, scanning_,
                [this](const platform::Fd& listener) { inbound_.accept(listener); }) {
  context_.reach = [this](const Id& other, const ParticipantContext::OnReached& on_reached) {
    outbound_.reach(other, on_reached);
  };
  context_.delayed = std::make_shared<link::DelayedSender>(
      [this] { loop_.schedule(sending_delayed_, kReturnDelay); });
  context_.accept_own = [this](platform::Fd socket) { return inbound_.adopt(std::move(socket)); };
  context_.orphaned_memory_of = [this](const Id& owner) { return orphaned_memory_of(owner); };
  context_.is_dead = [this](const Id& other) { return domain_.is_dead(other); };
  context_.keep = [this](const std::shared_ptr<PeerSession>& from, const link::Keep& asked) {
    kept_messages_.on_keep(from, asked);
  };
  context_.report = [this] { return encode_report(report()); };
  context_.tracing = std::make_shared<Tracing>(
      id(), [this] { return publishers_.living(); }, [this] { return subscriptions_.living(); });
  context_.queues = std::make_shared<QueueServer>(context_);
  context_.on_session_end = [this] { queue_rings_.on_session_end(); };
  context_.host_copies = std::make_unique<device::HostCopies>(
      context_.arena, context_.device_memory, [this] { loop_.schedule(delivering_copies_); });
  context_.copier = std::make_shared<DeviceCopier>(context_.device_memory, [this] {
    for (const auto& publisher : publishers_.living()) publisher->drain_if_idle();
  });
  domain_.sweep(id());
  (void)platform::own_lineage();  // now, not with the first connection
  loop_.watch(platform::children_descriptor(), [this] {
    children_look_ = kChildLook;
    look_after_children();
  });
  loop_.schedule(looking_after_children_);  // a destroyed participant may have consumed an event
  loop_.start([page = context_.wake_page] { page->mark_alive(); });
}

Participant::~Participant() {
  context_.shares.leave_to_keepers();
  context_.delayed->stop();
  loop_.stop();
  context_.copier->close();
  arena().close();
  device_memory().close();
  presence_.remove_socket();
  for (const auto& publisher : publishers_.living()) publisher->close();
  for (const std::string& marker : publishers_.markers()) domain_.remove_file(marker);
  inbound_.end();
  queue_rings_.end();
  outbound_.end();
  context_.queues.reset();
  context_.host_copies.reset();
}

int Participant::domain_descriptor() { return domain_event_.descriptor(); }
void Participant::clear_domain_descriptor() noexcept { domain_event_.clear(); }
int Participant::subscribers_descriptor() { return subscribers_event_.descriptor(); }
std::string Participant::domain_path() const { return domain_.path(); }

ArenaUse Participant::memory_use(const Device& device) const {
  ArenaUse use;
  if (device.is_host()) {
    use = arena().stats();
  } else {
    const auto all = device_memory().stats();
    const auto found = all.find(device.ordinal);
    if (found == all.end()) return {};
    use = found->second;
  }
  const platform::ForkedChildren children = platform::forked_children();
  use.inherited_leases = link::KeptLease::count();
  use.forked_children = children.guards;
  use.unwatched_forks = children.unwatched;
  return use;
}

std::shared_ptr<Sender> Participant::add_publisher(const std::string& topic,
                                                   const PublisherOptions& options,
                                                   link::MirrorOrigin origin, std::uint64_t first) {
  const std::string escaped = escape_topic(topic);
  check_origin(origin);
  check_option("depth", options.depth, 1, link::kMaxDepth);
  if (options.lag_timeout <= 0ns)
    throw Error(Code::kInvalidArgument, "lag_timeout: expected more than 0 seconds");
  if (!options.reliable && options.lag_timeout != std::chrono::nanoseconds::max())
    throw Error(Code::kInvalidArgument,
                "lag_timeout: a publisher that is not reliable does not wait; make it reliable");
  const std::uint32_t number = publishers_.next_number();
  const std::string marker = marker_name(escaped, id(), number);
  auto publisher = std::make_shared<Sender>(topic, number, options, context_.arena,
                                            context_.wake_page, std::move(origin));
  if (first != 0) (void)publisher->restart(first);
  publisher->on_link_stopped([this] { loop_.schedule(notifying_ended_); });
  publisher->on_drops([this] { drop_log_.on_drops(); });
  publisher->on_subscribers_changed([this] { subscribers_event_.signal(); });
  publishers_.add(publisher, marker);
  context_.tracing->add(publisher);
  // The marker is made last: a process that sees it finds the publisher.
  domain_.add_marker(marker, encode({static_cast<std::uint32_t>(::getpid()), topic, options.node,
                                     options.type.definition(), options.depth, options.history,
                                     options.reliable ? 1U : 0U, publisher->origin().machine,
                                     publisher->origin().publisher}));
  return publisher;
}

std::string Participant::advertise_node(const std::string& escaped_name, const std::string& name) {
  std::string marker = marker_name(escaped_name, id(), publishers_.next_number());
  domain_.add_marker(marker, encode({static_cast<std::uint32_t>(::getpid()), name, {}, {}}));
  return marker;
}

void Participant::close(const std::shared_ptr<Sender>& publisher, bool broken_off) {
  if (!publisher->close(broken_off)) return;
  const std::string marker = publishers_.remove(publisher->number());
  if (!marker.empty()) domain_.remove_file(marker);
  platform::kill_point("close.marker_removed");
  if (broken_off) broken_off_unreported_.store(true, std::memory_order_release);
  loop_.schedule(notifying_ended_);
}

void Participant::notify_ended() {
  broken_off_unreported_.store(false, std::memory_order_relaxed);
  inbound_.notify_ended();
}

// Finds a publisher for a subscriber that requests it. Before that, notifies subscribers of
// publishers that were broken off: this publisher may be the replacement.
std::shared_ptr<Sender> Participant::find_publisher(std::uint32_t number) {
  if (broken_off_unreported_.load(std::memory_order_acquire)) notify_ended();
  return publishers_.find(number);
}

std::vector<std::uint32_t> Participant::take_changed_publishers() {
  subscribers_event_.clear();
  const auto living = publishers_.living();
  std::vector<std::uint32_t> numbers;
  numbers.reserve(living.size());  // no call may throw after a change was taken
  for (const auto& publisher : living)
    if (publisher->take_change()) numbers.push_back(publisher->number());
  return numbers;
}

std::shared_ptr<Receiver> Participant::add_subscriber(const std::string& topic,
                                                      const SubscriberOptions& options,
                                                      const std::optional<PublisherName>& only) {
  check_option("depth", options.depth, 0, link::kMaxDepth);
  check_option("max_held", options.max_held, 1, link::kMaxHeld - link::kMaxDepth);
  auto subscriber = std::make_shared<Receiver>(topic, options, context_.wake_page, context_.copier);
  subscriber->acquire_by(
      [this, weak = std::weak_ptr(subscriber)](const std::shared_ptr<link::BorrowerLink>& link,
                                               std::uint64_t token, tensor::Descriptor descriptor) {
        if (const auto core = weak.lock()) acquire_for(core, link, token, std::move(descriptor));
      });
  subscriber->stage_by([this, weak = std::weak_ptr(subscriber)](
                           const std::shared_ptr<link::BorrowerLink>& link, std::uint64_t token,
                           std::vector<OutOfReach> tensors, AcquiredLeases acquired) {
    if (const auto core = weak.lock())
      stage_for(core, link, token, std::move(tensors), std::move(acquired));
  });
  subscriber->on_links_gone([this] { loop_.schedule(dropping_idle_); });
  subscriber->rejoin_by([this] { loop_.schedule(joining_again_, kRejoinDelay); });
  subscriptions_.add(subscriber, escape_topic(topic), only);
  context_.tracing->add(subscriber);
  loop_.schedule(scanning_);
  return subscriber;
}

void Participant::close(const std::shared_ptr<Receiver>& subscriber) {
  if (!subscriber->close()) return;
  subscriptions_.remove(subscriber);
  loop_.schedule(dropping_idle_);
}

int Participant::event_descriptor(const std::shared_ptr<Receiver>& subscriber) {
  const int fd = subscriber->event_descriptor();
  loop_.schedule(looking_after_events_, platform::kParkSlice);
  return fd;
}

// Every participant does this for the whole process.
void Participant::look_after_children() {
  if (!platform::look_after_children()) return;
  loop_.schedule(looking_after_children_, children_look_);
  children_look_ =
      std::clamp<std::chrono::milliseconds>(2 * children_look_, kChildLook, kLongChildLook);
}

void Participant::look_after_events() {
  if (subscriptions_.look_after_events())
    loop_.schedule(looking_after_events_, platform::kParkSlice);
}

// Joins every subscriber with every publisher of its topic that it has not joined yet. At a
// resource limit the event loop retries.
void Participant::scan() {
  presence_.poll_unless_watched();
  domain_changes_.fetch_add(1, std::memory_order_release);  // pairs with domain_changes()
  domain_event_.signal();
  if (subscriptions_.empty()) return;
  std::vector<std::string> files;
  try {
    files = domain_.list();
  } catch (const Error& error) {
    if (error.code() == Code::kOutOfMemory) throw;
    return loop_.schedule(scanning_, kRetryDelay);
  }
  if (!subscriptions_.join(files, outbound_, context_.log)) loop_.schedule(scanning_, kNoRoomDelay);
}

void Participant::join_lost_again() {
  subscriptions_.forget_lost();
  scan();
}

// Called under the subscriber's mutex.
void Participant::acquire_for(const std::shared_ptr<Receiver>& subscriber,
                              const std::shared_ptr<link::BorrowerLink>& link, std::uint64_t token,
                              tensor::Descriptor descriptor) {
  loop_.post(
      [this, weak = std::weak_ptr(subscriber), link, token, descriptor = std::move(descriptor)] {
        const auto acquire = [this, weak, link, token,
                              descriptor](const std::shared_ptr<PeerSession>& sender) {
          const auto core = weak.lock();
          if (!core) return;
          LeaseAcquisition::start(
              context_, descriptor, {sender, link->id(), token}, core->asks_for(),
              [this, weak, link, token, descriptor](std::variant<AcquiredLeases, Error> result) {
                const auto living = weak.lock();
                if (!living) return;
                const auto* const error = std::get_if<Error>(&result);
                if (error != nullptr && error->code() == Code::kOutOfMemory)
                  acquire_later(living, link, token, descriptor, *error);
                else
                  living->acquired(link, token, std::move(result));
              });
        };
        outbound_.reach(link->source()->participant, acquire);
      });
}

// The sample and the later samples of its publisher wait for room.
void Participant::acquire_later(const std::shared_ptr<Receiver>& subscriber,
                                const std::shared_ptr<link::BorrowerLink>& link,
                                std::uint64_t token, tensor::Descriptor descriptor,
                                const Error& why) {
  context_.log.write(
      platform::LogLevel::kWarning, subscriber->topic(), PeerLog::kNoProcess,
      {"a sample that was handed on cannot be received yet (trying again): ", why.what()});
  loop_.post_later(kRejoinDelay, [this, weak = std::weak_ptr(subscriber), link, token,
                                  descriptor = std::move(descriptor)] {
    const auto living = weak.lock();
    if (living && living->awaits_leases(link, token)) acquire_for(living, link, token, descriptor);
  });
}

// Called under the subscriber's mutex.
void Participant::stage_for(const std::shared_ptr<Receiver>& subscriber,
                            const std::shared_ptr<link::BorrowerLink>& link, std::uint64_t token,
                            std::vector<OutOfReach> tensors, AcquiredLeases acquired) {
  loop_.post([this, weak = std::weak_ptr(subscriber), link, token, tensors = std::move(tensors),
              acquired = std::move(acquired)]() mutable {
    HostCopyRequest::start(context_, tensors, std::move(acquired),
                           [weak, link, token](std::variant<AcquiredLeases, Error> result) {
                             if (const auto living = weak.lock())
                               living->acquired(link, token, std::move(result));
                           });
  });
}

std::vector<std::shared_ptr<link::PeerMemory>> Participant::orphaned_memory_of(const Id& owner) {
  if (!domain_.is_dead(owner)) return {};
  return outbound_.orphaned_memory_of(owner);
}

Shares::Name Participant::share(const SampleBuilder& sample, std::uint32_t uses,
                                Shares::Clock::time_point until, std::uint64_t carrier) {
  const memory::Grant grant = sample.max_grant();
  const Shares::Added added =
      context_.shares.add({sample.entry(), sample.issued(), grant}, uses, until, carrier);
  if (added.ends_first) loop_.schedule(ending_shares_);
  return added.name;
}

void Participant::end_overdue_shares() {
  const auto next = context_.shares.end_overdue();
  if (!next) return;
  const auto rest = std::chrono::ceil<std::chrono::milliseconds>(*next - Shares::Clock::now());
  loop_.schedule(ending_shares_, std::clamp<std::chrono::milliseconds>(rest, 1ms, 1h));
}

}  // namespace tensorbus::bus
