#include "tensorbus/bus/participant_core.hpp"

#include <algorithm>
#include <cstdlib>

#include "tensorbus/bus/claiming.hpp"
#include "tensorbus/bus/queue_host.hpp"
#include "tensorbus/bus/topic_name.hpp"
#include "tensorbus/platform/error.hpp"
#include "tensorbus/platform/fork_guard.hpp"
#include "tensorbus/platform/step.hpp"

namespace tensorbus::bus {
namespace {

using namespace std::chrono_literals;

constexpr auto kRetryDelay = 20ms;    // a backlog was full
constexpr auto kRejoinDelay = 200ms;  // an owner hung up and lives, or was short of something
constexpr auto kGreetingDelay = 5s;   // for who connects and does not say who it is
constexpr int kLooksAtTheDead = 10;
constexpr auto kPollInterval = 100ms;  // without an inotify instance

memory::ArenaOptions arena_options(const ParticipantOptions& options) {
  std::size_t budget = options.budget_bytes;
  if (const char* text = std::getenv("TENSORBUS_BUDGET"); budget == 0 && text != nullptr) {
    char* end = nullptr;
    budget = std::strtoull(text, &end, 10);
    if (*text == '\0' || *end != '\0')
      throw Error(Code::kInvalidArgument, "TENSORBUS_BUDGET: expected a number of bytes, got \"" +
                                              std::string(text) + "\"");
  }
  return {options.segment_bytes, budget, options.warm_bytes};
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
      surroundings_{Id::random(), service_, memory::Arena::create(arena_options(options)),
                    std::make_shared<link::WakePage>()},
      socket_file_(domain_, surroundings_.self),
      listener_(domain_.listen(surroundings_.self)),
      watch_(domain_.watch()) {
  surroundings_.reach = [this](const Id& other, const Surroundings::OnReached& on_reached) {
    reach(other, on_reached);
  };
  surroundings_.estate_of = [this](const Id& owner) { return estate_of(owner); };
  surroundings_.inherit = [this](const Id& owner, const std::shared_ptr<link::Connected>& left) {
    inherit(owner, left);
  };
  surroundings_.queues = std::make_shared<QueueHost>(surroundings_);
  domain_.sweep(id());
  arena().on_retired([this] { service_.ask(telling_retired_); });
  service_.watch(listener_.get(), [this] { on_connection(); });
  if (watch_.fd() >= 0)
    service_.watch(watch_.fd(), [this] { on_directory_change(); });
  else
    service_.ask(scanning_, kPollInterval);
  service_.start();
}

ParticipantCore::~ParticipantCore() {
  service_.stop();
  arena().close();
  domain_.remove_file(socket_file_.name);
  for (const auto& [number, published] : publishers_) {
    if (const auto publisher = published.publisher.lock()) publisher->close();
    domain_.remove_file(published.marker);
  }
  for (const auto& connection : owner_connections_) connection->end();
  for (const auto& [id, owner] : owners_) owner.connection->end("");
  surroundings_.queues.reset();
}

std::shared_ptr<PublisherCore> ParticipantCore::add_publisher(const std::string& topic,
                                                              const PublisherOptions& options) {
  const std::string escaped = escape_topic(topic);
  check_option("depth", options.depth, 1, link::kMaxDepth);
  std::shared_ptr<PublisherCore> publisher;
  std::string marker;
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(publishers_, [](const auto& item) { return item.second.publisher.expired(); });
    const std::uint32_t number = next_publisher_++;
    marker = marker_name(escaped, id(), number);
    publisher = std::make_shared<PublisherCore>(topic, number, options, surroundings_.arena,
                                                surroundings_.wake_page);
    publishers_.emplace(number, Published{publisher, marker});
  }
  // Only now can it be found: whoever sees the marker finds the publisher.
  domain_.add_marker(marker);
  return publisher;
}

void ParticipantCore::close_publisher(const std::shared_ptr<PublisherCore>& publisher) {
  if (!publisher->close()) return;
  {
    const std::lock_guard lock(mutex_);
    const auto closed = publishers_.extract(publisher->number());
    if (closed) domain_.remove_file(closed.mapped().marker);
  }
  platform::step("close.marker_removed");
  service_.ask(telling_ended_);
}

std::shared_ptr<SubscriberCore> ParticipantCore::add_subscriber(const std::string& topic,
                                                                const SubscriberOptions& options) {
  check_option("depth", options.depth, 0, link::kMaxDepth);
  check_option("max_held", options.max_held, 1, link::kMaxHeld - link::kMaxDepth);
  auto subscriber = std::make_shared<SubscriberCore>(topic, options, surroundings_.wake_page);
  subscriber->claim_by([this, weak = std::weak_ptr(subscriber)](
                           const std::shared_ptr<link::BorrowerLink>& link, Descriptor descriptor) {
    if (const auto core = weak.lock()) claim_for(core, link, std::move(descriptor));
  });
  {
    const std::lock_guard lock(mutex_);
    listening_.push_back({subscriber, escape_topic(topic), {}});
  }
  service_.ask(scanning_);
  return subscriber;
}

void ParticipantCore::close_subscriber(const std::shared_ptr<SubscriberCore>& subscriber) {
  if (!subscriber->close()) return;
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(listening_, [&](const Listening& listening) {
      return listening.subscriber.expired() || listening.subscriber.lock() == subscriber;
    });
  }
  service_.ask(dropping_idle_);
}

int ParticipantCore::event_descriptor(const std::shared_ptr<SubscriberCore>& subscriber) {
  const int fd = subscriber->event_descriptor();
  service_.ask(looking_after_events_, link::kParkSlice);
  return fd;
}

void ParticipantCore::look_after_events() {
  const std::lock_guard lock(mutex_);
  bool polled = false;
  for (const Listening& listening : listening_)
    if (const auto subscriber = listening.subscriber.lock())
      polled = subscriber->look_after_event() || polled;
  if (polled) service_.ask(looking_after_events_, link::kParkSlice);
}

memory::BlockRef ParticipantCore::allocate(std::size_t bytes, memory::Grant most) {
  try {
    return arena().allocate(bytes, most);
  } catch (const Error& error) {
    if (error.code() != Code::kOutOfMemory) throw;
  }
  for (const auto& publisher : publishers()) publisher->drain();
  return arena().allocate(bytes, most);
}

std::vector<std::shared_ptr<PublisherCore>> ParticipantCore::publishers() {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<PublisherCore>> living;
  for (const auto& [number, published] : publishers_)
    if (auto publisher = published.publisher.lock()) living.push_back(std::move(publisher));
  return living;
}

std::shared_ptr<PublisherCore> ParticipantCore::find_publisher(std::uint32_t number) {
  const std::lock_guard lock(mutex_);
  const auto found = publishers_.find(number);
  return found == publishers_.end() ? nullptr : found->second.publisher.lock();
}

// Who connects while descriptors or memory are short waits, in the backlog or here.
void ParticipantCore::on_connection() {
  while (true) {
    if (!newcomer_) newcomer_ = platform::accept_from(listener_.get());
    if (!newcomer_) return;
    if (platform::is_of_the_last(newcomer_.get()))
      platform::discard_unread(newcomer_.get());
    else
      adopt_connection(platform::duplicate(newcomer_.get()));
    newcomer_.reset();
  }
}

void ParticipantCore::adopt_connection(platform::Fd socket) {
  try {
    owner_connections_.push_back(std::make_unique<OwnerConnection>(
        surroundings_, std::move(socket),
        [this](std::uint32_t number) { return find_publisher(number); },
        [this](OwnerConnection& connection, const std::string&) {
          connection.end();
          if (const auto source = connection.exchange()->source())
            inherit(source->participant, connection.exchange()->connected());
          service_.ask(dropping_ended_);  // not at once: the connection is the one that calls us
        }));
    service_.ask(dropping_silent_, kGreetingDelay);
  } catch (const Error& error) {
    if (error.code() == Code::kOutOfMemory) throw;
    // Another user's process: the socket closes, and it sees that.
  }
}

void ParticipantCore::drop_ended_connections() {
  std::erase_if(owner_connections_, [](const auto& connection) { return connection->ended(); });
}

void ParticipantCore::drop_silent_connections() {
  const auto overdue = std::chrono::steady_clock::now() - kGreetingDelay;
  bool silent = false;
  std::erase_if(owner_connections_, [&](const auto& connection) {
    if (connection->greeted()) return false;
    silent = silent || connection->since() > overdue;
    return connection->since() <= overdue;
  });
  if (silent) service_.ask(dropping_silent_, kGreetingDelay / 5);
}

void ParticipantCore::on_directory_change() {
  if (watch_.drain_changes()) service_.ask(scanning_);
}

// Joins every subscriber with every publisher of its topic that it has not joined yet. Meets it a
// limit, the service has it done again.
void ParticipantCore::scan() {
  if (watch_.fd() < 0) service_.ask(scanning_, kPollInterval);
  std::vector<std::pair<std::shared_ptr<SubscriberCore>, PublisherName>> found;
  {
    const std::lock_guard lock(mutex_);
    if (listening_.empty()) return;
  }
  std::vector<std::string> names;
  try {
    names = domain_.list();
  } catch (const Error& error) {
    if (error.code() == Code::kOutOfMemory) throw;
    return service_.ask(scanning_, kRetryDelay);
  }
  std::multimap<std::string_view, PublisherName> markers;
  for (const std::string& name : names)
    if (const auto marker = parse_marker(name))
      markers.emplace(marker->escaped_topic, PublisherName{marker->participant, marker->publisher});
  {
    const std::lock_guard lock(mutex_);
    for (Listening& listening : listening_) {
      std::set<PublisherName> present;
      const auto [begin, end] = markers.equal_range(listening.escaped_topic);
      for (auto at = begin; at != end; ++at) present.insert(at->second);
      std::erase_if(listening.joined,
                    [&](const auto& item) { return !present.contains(item.first); });
      for (const PublisherName& name : present)
        if (auto subscriber = listening.subscriber.lock();
            subscriber && !listening.joined.contains(name))
          found.emplace_back(std::move(subscriber), name);
    }
  }
  for (const auto& [subscriber, publisher] : found) join(subscriber, publisher);
}

void ParticipantCore::join(const std::shared_ptr<SubscriberCore>& subscriber,
                           const PublisherName& publisher) {
  BorrowerConnection* connection = connection_to(publisher.first).connection;
  if (connection == nullptr) return;
  const std::lock_guard lock(mutex_);
  for (Listening& listening : listening_) {
    if (listening.subscriber.lock() != subscriber) continue;
    const auto joined = listening.joined.emplace(publisher, Joined{}).first;
    try {
      connection->subscribe(subscriber, publisher.second);
    } catch (...) {
      listening.joined.erase(joined);
      throw;
    }
  }
}

// Not at once again: the publisher had its reason.
void ParticipantCore::lose(const std::shared_ptr<SubscriberCore>& subscriber,
                           const PublisherName& publisher) noexcept {
  const std::lock_guard lock(mutex_);
  for (Listening& listening : listening_) {
    if (listening.subscriber.lock() != subscriber) continue;
    const auto joined = listening.joined.find(publisher);
    if (joined != listening.joined.end()) joined->second.lost = true;
  }
  service_.ask(joining_again_, kRejoinDelay);
}

void ParticipantCore::join_lost_again() {
  {
    const std::lock_guard lock(mutex_);
    for (Listening& listening : listening_)
      std::erase_if(listening.joined, [](const auto& item) { return item.second.lost; });
  }
  scan();
}

// The connection to an owner, made if need be.
ParticipantCore::Reached ParticipantCore::connection_to(const Id& owner) {
  const auto found = owners_.find(owner);
  if (found != owners_.end()) return {found->second.connection.get()};
  try {
    platform::Connection connection = domain_.connect(owner);
    if (connection.outcome == platform::Connect::kDone) {
      auto made = std::make_shared<BorrowerConnection>(
          surroundings_, owner, std::move(connection.socket),
          [this](BorrowerConnection& gone, const std::string& why) { forget_owner(gone, why); },
          [this, owner](const std::shared_ptr<SubscriberCore>& subscriber, std::uint32_t number) {
            lose(subscriber, {owner, number});
          });
      return {owners_.emplace(owner, Owner{std::move(made)}).first->second.connection.get()};
    }
    if (connection.outcome == platform::Connect::kDead) {
      domain_.remove_files_of(owner);
      return {nullptr, true};
    }
  } catch (const Error& error) {
    if (error.code() == Code::kOutOfMemory) throw;
    // The socket is another user's: as with a full backlog, try again.
  }
  service_.ask(scanning_, kRetryDelay);
  return {};
}

// Called under the subscriber's mutex.
void ParticipantCore::claim_for(const std::shared_ptr<SubscriberCore>& subscriber,
                                const std::shared_ptr<link::BorrowerLink>& link,
                                Descriptor descriptor) {
  service_.post([this, weak = std::weak_ptr(subscriber), link, descriptor = std::move(descriptor)] {
    reach(link->source()->participant,
          [this, weak, link, descriptor](const std::shared_ptr<Exchange>& sender) {
            const auto core = weak.lock();
            if (!core) return;
            Claiming::start(surroundings_, descriptor, sender, core->asks_for(),
                            [weak, link](std::variant<Claimed, Error> result) {
                              if (const auto living = weak.lock())
                                living->claimed(link, std::move(result));
                            });
          });
  });
}

void ParticipantCore::reach(const Id& other, const Surroundings::OnReached& on_reached) {
  const Reached reached = connection_to(other);
  if (reached.connection != nullptr) return on_reached(reached.connection->exchange());
  if (reached.dead) return on_reached(nullptr);
  service_.post_later(kRetryDelay, [this, other, on_reached] { reach(other, on_reached); });
}

// Nothing of who has hung up, and lives: it may write there. Of one that is dead, we may not have
// heard the end of the connection yet.
std::vector<std::shared_ptr<link::Connected>> ParticipantCore::estate_of(const Id& owner) {
  std::vector<std::shared_ptr<link::Connected>> left;
  if (!domain_.is_dead(owner)) return left;
  const auto [begin, end] = estates_.equal_range(owner);
  for (auto at = begin; at != end; ++at)
    if (auto connected = at->second.lock()) left.push_back(std::move(connected));
  if (const auto found = owners_.find(owner); found != owners_.end())
    left.push_back(found->second.connection->exchange()->connected());
  for (const auto& connection : owner_connections_)
    if (connection->exchange()->source() && connection->exchange()->source()->participant == owner)
      left.push_back(connection->exchange()->connected());
  return left;
}

void ParticipantCore::inherit(const Id& owner, const std::shared_ptr<link::Connected>& left) {
  std::erase_if(estates_, [&](const auto& item) {
    const auto known = item.second.lock();
    return !known || known == left;
  });
  estates_.emplace(owner, left);
}

Shares::Name ParticipantCore::share(const PreparedSample& sample, std::uint32_t uses,
                                    Shares::Clock::time_point until) {
  const memory::Grant grant = sample.most_granted();
  const Shares::Name name =
      surroundings_.shares.add({sample.entry(), sample.issued(), grant}, uses, until);
  if (until != Shares::Clock::time_point::max()) service_.ask(ending_shares_);
  return name;
}

void ParticipantCore::end_overdue_shares() {
  const auto next = surroundings_.shares.end_overdue();
  if (!next) return;
  const auto rest = std::chrono::ceil<std::chrono::milliseconds>(*next - Shares::Clock::now());
  service_.ask(ending_shares_, std::clamp<std::chrono::milliseconds>(rest, 1ms, 1h));
}

void ParticipantCore::forget_owner(BorrowerConnection& connection, const std::string& why) {
  connection.end(why);
  inherit(connection.owner(), connection.exchange()->connected());
  // Nobody finds it any more, but it is the one that calls us: it goes when the errand is done.
  auto node = owners_.extract(connection.owner());
  node.mapped().looks = kLooksAtTheDead;
  departed_.insert(std::move(node));
  service_.ask(clearing_up_);
}

// Removes the files of owners that hung up, if they are dead. One that broke the protocol but lives
// keeps them; and the listener of one that is being killed may close after its connections, so we
// look more than once.
void ParticipantCore::clear_up_after_owners() {
  service_.ask(scanning_);
  for (auto& [id, owner] : departed_) owner.connection.reset();
  for (auto at = departed_.begin(); at != departed_.end();) {
    const bool dead = domain_.is_dead(at->first);
    if (dead) domain_.remove_files_of(at->first);
    const auto looked_at = at++;
    if (dead || --looked_at->second.looks <= 0) departed_.erase(looked_at);
  }
  if (!departed_.empty()) service_.ask(clearing_up_, kRetryDelay);
}

void ParticipantCore::drop_idle_connections() {
  std::erase_if(owners_, [](const auto& item) { return item.second.connection->idle(); });
}

void ParticipantCore::tell_ended() {
  for (const auto& connection : owner_connections_) connection->tell_ended();
}

void ParticipantCore::tell_retired() {
  while (true) {
    if (untold_.empty()) untold_ = arena().take_retired();
    if (untold_.empty()) return;
    for (const auto& connection : owner_connections_) connection->tell_retired(untold_.back());
    for (const auto& [id, owner] : owners_) owner.connection->tell_retired(untold_.back());
    untold_.pop_back();
  }
}

}  // namespace tensorbus::bus
