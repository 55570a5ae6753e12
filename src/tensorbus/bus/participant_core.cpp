#include "tensorbus/bus/participant_core.hpp"

#include <algorithm>
#include <cstdlib>

#include "tensorbus/bus/topic_name.hpp"
#include "tensorbus/platform/error.hpp"
#include "tensorbus/platform/fork_guard.hpp"
#include "tensorbus/platform/step.hpp"

namespace tensorbus::bus {
namespace {

using namespace std::chrono_literals;

constexpr auto kRetryDelay = 20ms;  // a backlog was full, or descriptors were short
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

ParticipantCore::ParticipantCore(const ParticipantOptions& options)
    : fork_generation_(platform::fork_generation()),
      domain_(options.domain),
      surroundings_{Id::random(), service_, memory::Arena::create(arena_options(options)),
                    std::make_shared<link::WakePage>()},
      listener_(domain_.listen(surroundings_.self)),
      watch_(domain_.watch()) {
  domain_.sweep(id());
  arena().on_retired([this] { service_.post([this] { tell_retired(); }); });
  watch_listener();
  if (watch_.fd() >= 0)
    service_.watch(watch_.fd(), [this] { on_directory_change(); });
  else
    service_.post_later(kPollInterval, [this] { on_directory_change(); });
  service_.start();
}

ParticipantCore::~ParticipantCore() {
  service_.stop();
  arena().close();
  for (const auto& publisher : publishers()) publisher->close();
  domain_.remove_files_of(id());
  for (const auto& connection : owner_connections_) connection->end();
  for (const auto& [owner, connection] : borrower_connections_) connection->end("");
}

std::shared_ptr<PublisherCore> ParticipantCore::add_publisher(const std::string& topic,
                                                              const PublisherOptions& options) {
  const std::string escaped = escape_topic(topic);
  check_option("depth", options.depth, 1, link::kMaxDepth);
  std::shared_ptr<PublisherCore> publisher;
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(publishers_, [](const auto& item) { return item.second.expired(); });
    const std::uint32_t number = next_publisher_++;
    publisher = std::make_shared<PublisherCore>(topic, number, options, surroundings_.arena,
                                                surroundings_.wake_page);
    publishers_.emplace(number, publisher);
  }
  // Only now can it be found: whoever sees the marker finds the publisher.
  domain_.add_marker(marker_name(escaped, id(), publisher->number()));
  return publisher;
}

void ParticipantCore::close_publisher(const std::shared_ptr<PublisherCore>& publisher) {
  if (!publisher->close()) return;
  domain_.remove_file(marker_name(escape_topic(publisher->topic()), id(), publisher->number()));
  platform::step("close.marker_removed");
  service_.post([this, publisher] {
    for (const auto& connection : owner_connections_) connection->tell_ended(*publisher);
  });
}

std::shared_ptr<SubscriberCore> ParticipantCore::add_subscriber(const std::string& topic,
                                                                const SubscriberOptions& options) {
  check_option("depth", options.depth, 0, link::kMaxDepth);
  check_option("max_held", options.max_held, 1, link::kMaxHeld - link::kMaxDepth);
  auto subscriber = std::make_shared<SubscriberCore>(topic, options, surroundings_.wake_page);
  {
    const std::lock_guard lock(mutex_);
    listening_.push_back({subscriber, escape_topic(topic), {}});
  }
  scan_soon();
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
  service_.post([this] { drop_idle_connections(); });
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
  for (const auto& [number, weak] : publishers_)
    if (auto publisher = weak.lock()) living.push_back(std::move(publisher));
  return living;
}

std::shared_ptr<PublisherCore> ParticipantCore::find_publisher(std::uint32_t number) {
  const std::lock_guard lock(mutex_);
  const auto found = publishers_.find(number);
  return found == publishers_.end() ? nullptr : found->second.lock();
}

void ParticipantCore::watch_listener() {
  listener_tag_ = service_.watch(listener_.get(), [this] { on_connection(); });
}

void ParticipantCore::on_connection() {
  try {
    while (platform::Fd socket = platform::accept_from(listener_.get()))
      adopt_connection(std::move(socket));
  } catch (const Error&) {
    // Out of descriptors: who connects waits in the backlog until some are back.
    service_.unwatch(listener_tag_, listener_.get());
    service_.post_later(kRetryDelay, [this] { watch_listener(); });
  }
}

void ParticipantCore::adopt_connection(platform::Fd socket) {
  try {
    owner_connections_.push_back(std::make_unique<OwnerConnection>(
        surroundings_, std::move(socket),
        [this](std::uint32_t number) { return find_publisher(number); },
        [this](OwnerConnection& connection, const std::string&) {
          connection.end();
          // Not at once: the connection is the one that calls us.
          service_.post([this, gone = &connection] {
            std::erase_if(owner_connections_, [&](const auto& c) { return c.get() == gone; });
          });
        }));
  } catch (const Error&) {
    // Another user's process: the socket closes, and it sees that.
  }
}

void ParticipantCore::on_directory_change() {
  if (watch_.fd() < 0) service_.post_later(kPollInterval, [this] { on_directory_change(); });
  if (watch_.drain_changes()) scan();
}

void ParticipantCore::scan_soon() {
  service_.post([this] { scan(); });
}

// Joins every subscriber with every publisher of its topic that it has not joined yet.
void ParticipantCore::scan() {
  std::vector<std::pair<std::shared_ptr<SubscriberCore>, PublisherName>> found;
  try {
    const std::vector<std::string> names = domain_.list();
    const std::lock_guard lock(mutex_);
    if (listening_.empty()) return;
    std::multimap<std::string_view, PublisherName> markers;
    for (const std::string& name : names)
      if (const auto marker = parse_marker(name))
        markers.emplace(marker->escaped_topic,
                        PublisherName{marker->participant, marker->publisher});
    for (Listening& listening : listening_) {
      std::set<PublisherName> present;
      const auto [begin, end] = markers.equal_range(listening.escaped_topic);
      for (auto at = begin; at != end; ++at) present.insert(at->second);
      std::erase_if(listening.joined, [&](const auto& name) { return !present.contains(name); });
      for (const PublisherName& name : present)
        if (auto subscriber = listening.subscriber.lock();
            subscriber && listening.joined.insert(name).second)
          found.emplace_back(std::move(subscriber), name);
    }
  } catch (const Error&) {
    service_.post_later(kRetryDelay, [this] { scan(); });  // out of descriptors, for now
  }
  for (const auto& [subscriber, publisher] : found) join(subscriber, publisher);
}

void ParticipantCore::join(const std::shared_ptr<SubscriberCore>& subscriber,
                           const PublisherName& publisher) {
  BorrowerConnection* connection = connection_to(publisher.first);
  if (connection != nullptr) return connection->subscribe(subscriber, publisher.second);
  const std::lock_guard lock(mutex_);
  for (Listening& listening : listening_)
    if (listening.subscriber.lock() == subscriber) listening.joined.erase(publisher);
}

// The connection to an owner, made if need be. Null: it is dead, or to be tried again later.
BorrowerConnection* ParticipantCore::connection_to(const Id& owner) {
  const auto found = borrower_connections_.find(owner);
  if (found != borrower_connections_.end()) return found->second.get();
  try {
    platform::Connection connection = domain_.connect(owner);
    if (connection.outcome == platform::Connect::kDone) {
      auto made = std::make_shared<BorrowerConnection>(
          surroundings_, owner, std::move(connection.socket),
          [this](BorrowerConnection& gone, const std::string& why) { forget_owner(gone, why); });
      return borrower_connections_.emplace(owner, std::move(made)).first->second.get();
    }
    if (connection.outcome == platform::Connect::kDead) {
      domain_.remove_files_of(owner);
      return nullptr;
    }
  } catch (const Error&) {
    // Descriptors are short, or the socket is another user's: as with a full backlog, try again.
  }
  service_.post_later(kRetryDelay, [this] { scan(); });
  return nullptr;
}

void ParticipantCore::forget_owner(BorrowerConnection& connection, const std::string& why) {
  connection.end(why);
  const Id owner = connection.owner();
  // Nobody finds it any more, but it is the one that calls us: it goes when the task has run.
  const auto node = borrower_connections_.extract(owner);
  service_.post([this, owner, gone = node.mapped()] {
    clear_up_after(owner, kLooksAtTheDead);
    scan();
  });
}

// Removes the files of an owner that hung up, if it is dead. One that broke the protocol but lives
// keeps them; and the listener of one that is being killed may close after its connections, so we
// look more than once.
void ParticipantCore::clear_up_after(const Id& owner, int looks) {
  try {
    if (domain_.connect(owner).outcome == platform::Connect::kDead)
      return domain_.remove_files_of(owner);
  } catch (const Error&) {  // out of descriptors, for now
  }
  if (looks > 1)
    service_.post_later(kRetryDelay, [this, owner, looks] { clear_up_after(owner, looks - 1); });
}

void ParticipantCore::drop_idle_connections() {
  std::erase_if(borrower_connections_, [](const auto& item) { return item.second->idle(); });
}

void ParticipantCore::tell_retired() {
  for (const std::uint32_t segment : arena().take_retired())
    for (const auto& connection : owner_connections_) connection->tell_retired(segment);
}

}  // namespace tensorbus::bus
