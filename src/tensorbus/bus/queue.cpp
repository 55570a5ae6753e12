#include "tensorbus/bus/queue.hpp"

#include <unistd.h>

#include <charconv>
#include <fstream>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tensorbus/bus/domain/advertisement.hpp"
#include "tensorbus/bus/domain/topic_name.hpp"
#include "tensorbus/bus/participant/participant_core.hpp"
#include "tensorbus/bus/queue/queue_host.hpp"
#include "tensorbus/bus/queue_client/queue_client.hpp"
#include "tensorbus/platform/clock.hpp"
#include "tensorbus/platform/limits.hpp"
#include "tensorbus/platform/waiting/poller.hpp"

namespace tensorbus {
namespace {

constexpr std::string_view kPrefix = "tensorbus-queue:";
constexpr std::chrono::nanoseconds kNow{};

// Returns the name in a queue's marker. No topic's file name contains '='.
std::string escaped_name(const std::string& name) { return "queue=" + bus::escape_topic(name); }

std::string address_of(const bus::QueueAddress& address) {
  const auto hex = [](std::uint64_t value) {
    char digits[16];
    const auto end = std::to_chars(std::begin(digits), std::end(digits), value, 16).ptr;
    return std::string(std::begin(digits), end);
  };
  return std::string(kPrefix) + address.host.hex() + ":" + hex(address.queue.number) + ":" +
         hex(address.queue.key);
}

bus::QueueAddress parse_address(std::string_view text) {
  bus::QueueAddress address;
  const auto refuse = [] {
    throw Error(Code::kInvalidArgument,
                "this is no address of a queue: it is cut short, or was "
                "changed");
  };
  if (!text.starts_with(kPrefix)) refuse();
  std::string_view rest = text.substr(kPrefix.size());
  const auto host = Id::parse(rest.substr(0, 32));
  if (!host || rest.size() < 33 || rest[32] != ':') refuse();
  address.host = *host;
  rest.remove_prefix(33);
  for (std::uint64_t* number : {&address.queue.number, &address.queue.key}) {
    const auto parsed = std::from_chars(rest.data(), rest.data() + rest.size(), *number, 16);
    if (parsed.ec != std::errc()) refuse();
    rest.remove_prefix(static_cast<std::size_t>(parsed.ptr - rest.data()));
    if (number == &address.queue.number && !rest.empty() && rest[0] == ':') rest.remove_prefix(1);
  }
  if (!rest.empty()) refuse();
  return address;
}

// Returns the queues of this name, some of whose hosts may have died. Without their keys.
std::vector<bus::QueueAddress> marked(const bus::Domain& domain, const std::string& name) {
  const std::string escaped = escaped_name(name);
  std::vector<bus::QueueAddress> all;
  for (const std::string& file : domain.list()) {
    const auto marker = bus::parse_marker(file);
    if (marker && marker->escaped_topic == escaped)
      all.push_back({marker->participant, {marker->publisher, 0}});
  }
  return all;
}

// Returns the first queue of this name whose host has not died.
std::optional<bus::QueueAddress> look_for(const bus::Domain& domain, const std::string& name) {
  for (const bus::QueueAddress& queue : marked(domain, name))
    if (!domain.is_dead(queue.host)) return queue;
  return std::nullopt;
}

// A name that several queues may have: those of the servers of one service.
bool is_of_service(const std::string& name) { return name.starts_with("service:"); }

std::string process_text(const bus::Domain& domain, const std::string& marker) {
  constexpr std::size_t kMostContent = 65'536;
  const auto found = bus::decode_advertisement(domain.read_marker(marker, kMostContent));
  if (!found || found->pid == 0) return "another process";
  std::string name;
  std::getline(std::ifstream("/proc/" + std::to_string(found->pid) + "/comm"), name);
  return "process " + std::to_string(found->pid) + (name.empty() ? "" : " (" + name + ")");
}

// Throws Error(kInvalidArgument) if there is a queue of this name other than `own`.
void require_only(const bus::Domain& domain, const std::string& name, const std::string& own) {
  const std::string escaped = escaped_name(name);
  for (const std::string& file : domain.list()) {
    const auto marker = bus::parse_marker(file);
    if (file == own || !marker || marker->escaped_topic != escaped ||
        domain.is_dead(marker->participant))
      continue;
    std::string why = "there is a queue \"" + name + "\" already, which ";
    why += process_text(domain, file);
    why += " made. Open that one with Queue.open(\"" + name + "\"), or choose another name";
    throw Error(Code::kInvalidArgument, why);
  }
}

// Marks a queue that was made here. Two processes that do so at once see each other's markers:
// both take theirs back, and try again at different times.
void add_only_marker(const bus::Domain& domain, const std::string& name,
                     const std::string& marker) {
  constexpr int kAttempts = 20;
  std::minstd_rand random(static_cast<unsigned>(::getpid()) ^
                          static_cast<unsigned>(platform::wall_clock_ns()));
  for (int attempt = 1;; ++attempt) {
    require_only(domain, name, marker);
    domain.add_marker(marker, bus::encode({static_cast<std::uint32_t>(::getpid()), name, {}, {}}));
    try {
      return require_only(domain, name, marker);
    } catch (const Error&) {
      domain.remove_file(marker);
      if (attempt == kAttempts) throw;
    } catch (...) {
      domain.remove_file(marker);
      throw;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(random() % (1000U * attempt)));
  }
}

// Waits for a queue of this name. Throws Error(kTimeout) if none is made in time.
bus::QueueAddress wait_for(const bus::Domain& domain, const std::string& name,
                           const platform::StopCondition& stop) {
  std::optional<bus::QueueAddress> found;
  const auto look = [&] {
    found = look_for(domain, name);
    return found.has_value();
  };
  if (domain.wait(stop, look) == Outcome::kDone) return *found;
  throw Error(Code::kTimeout, "there is no queue \"" + name + "\" in the domain " + domain.path() +
                                  bus::elsewhere_text(domain.path()));
}

}  // namespace

struct Queue::State {
  static constexpr const char* kMovedFrom = "this queue was moved from";
  const std::shared_ptr<bus::ParticipantCore> participant;
  const QueueOptions options;
  bus::QueueAddress address{};
  std::string text{};    // the address as text
  std::string marker{};  // of a named queue that was made here
  bool made_here = false;
  std::optional<Access> wanted{};  // by receive_with()

  ~State() {
    if (made_here) close({});
  }
  bus::QueueClient client() const { return {*participant, address}; }
  Access access() const noexcept {
    if (wanted) return *wanted;
    return options.shared ? Access::kShared : Access::kRead;
  }
  bus::SampleBuilder prepare(const Message& item) const {
    return {item.tensors, item, participant->supplies(grant())};
  }
  void prepare(const Message& item, std::optional<bus::SampleBuilder>& to) const {
    to.emplace(item.tensors, item, participant->supplies(grant()));
  }
  // Without a timeout nothing bounds the wait for memory, which perhaps nobody frees: then the
  // first attempt counts.
  Outcome when_there_is_room(const platform::StopCondition& stop,
                             const std::function<void()>& prepare) const {
    if (stop.timeout() != kForever) return participant->when_there_is_room(stop, prepare);
    prepare();
    return Outcome::kDone;
  }
  memory::Grant grant() const noexcept {
    return options.shared ? memory::Grant::kWrite : memory::Grant::kRead;
  }
  void close(const GiveUp& give_up) const {
    if (!marker.empty()) participant->domain().remove_file(marker);
    client().close(give_up);
  }
};

Queue::Queue(bus::ForkSafe<State> state) : state_(std::move(state)) {}
Queue::Queue(Queue&&) noexcept = default;
Queue& Queue::operator=(Queue&&) noexcept = default;
Queue::~Queue() = default;

Queue::Queue(const QueueOptions& options, const Participant& participant) {
  platform::with_memory_errors([&] {
    state_.emplace(participant.core(), options);
    State& state = *state_;
    bus::ParticipantCore& core = *state.participant;
    state.address = {core.id(), bus::make_queue(core, options)};
    state.made_here = true;
    state.text = address_of(state.address);
    if (options.name.empty()) return;
    const auto number = static_cast<std::uint32_t>(state.address.queue.number);
    state.marker = bus::marker_name(escaped_name(options.name), core.id(), number);
    if (is_of_service(options.name))
      core.domain().add_marker(state.marker);
    else
      add_only_marker(core.domain(), options.name, state.marker);
  });
}

Queue Queue::elsewhere(const Participant& participant, QueueOptions options,
                       const bus::QueueAddress& address) {
  bus::ForkSafe<State> state;
  state.emplace(participant.core(), std::move(options), address, address_of(address));
  return Queue(std::move(state));
}

Queue Queue::open(const std::string& address_or_name, const platform::StopCondition& stop,
                  const Participant& participant) {
  return platform::with_memory_errors([&] {
    bus::ParticipantCore& core = *participant.core();
    const bool named = !address_or_name.starts_with(kPrefix);
    bus::QueueAddress address =
        named ? wait_for(core.domain(), address_or_name, stop) : parse_address(address_or_name);
    const link::Reply told = bus::QueueClient(core, address).open(stop);
    address.queue.key = told.third;
    return elsewhere(participant,
                     {.maxsize = static_cast<std::uint32_t>(told.first),
                      .redeliver = (told.second & 1) != 0,
                      .shared = (told.second & 2) != 0,
                      .name = named ? address_or_name : "",
                      .max_bytes = told.fourth},
                     address);
  });
}

Queue Queue::at(const std::string& address, const QueueOptions& options,
                const Participant& participant) {
  return platform::with_memory_errors(
      [&] { return elsewhere(participant, options, parse_address(address)); });
}

std::vector<std::string> Queue::addresses_of(const std::string& name,
                                             const Participant& participant) {
  return platform::with_memory_errors([&] {
    std::vector<std::string> all;
    for (const bus::QueueAddress& queue : marked(participant.core()->domain(), name))
      all.push_back(address_of(queue));
    return all;
  });
}

void Queue::receive_with(Access access) { state_->wanted = access; }

const std::string& Queue::address() const { return state_->text; }

const QueueOptions& Queue::options() const { return state_->options; }

bool Queue::made_here() const { return state_->made_here; }

Outcome Queue::put(const Message& item, const platform::StopCondition& stop) {
  const State& state = *state_;
  return platform::with_memory_errors([&] {
    std::optional<bus::SampleBuilder> prepared;
    const Outcome ready = state.when_there_is_room(stop, [&] { state.prepare(item, prepared); });
    if (ready != Outcome::kDone) return ready;
    const Outcome outcome = state.client().put(*prepared, stop);
    if (outcome == Outcome::kDone) prepared->mark_done();
    return outcome;
  });
}

Outcome Queue::get(Sample& item, const platform::StopCondition& stop) {
  const State& state = *state_;
  return platform::with_memory_errors(
      [&] { return state.client().get(item, state.access(), stop); });
}

struct Queue::Pending::Impl {
  std::shared_ptr<bus::ParticipantCore> participant;
  platform::Fd event;
  bus::QueueClient::Request told;     // for a put or a join
  std::optional<bus::QueueGet> item;  // for a get
  const std::uint32_t fork_generation = platform::fork_generation();

  ~Impl() {
    if (fork_generation != platform::fork_generation()) {
      platform::abandon(std::move(participant));
      platform::abandon(std::move(told));
      platform::abandon(std::move(item));
    } else {
      cancel();
    }
  }
  void cancel() noexcept {
    try {
      if (item) item->cancel();
      if (told.cancel && told.awaited->give_up()) told.cancel();
    } catch (const std::exception&) {  // no memory: the host learns it when we end
    }
  }
  // Returns a callback with its own duplicate of the eventfd: it may outlive this object.
  std::function<void()> notify() const {
    auto sender = std::make_shared<platform::Fd>(platform::duplicate(event.get()));
    return [sender] { platform::signal_event(sender->get()); };
  }
  // Re-arms the descriptor; it is readable at once if something has come by now.
  void notify_again() {
    platform::clear_event(event.get());
    item->on_ready(notify());
  }
};

Queue::Pending::Pending(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Queue::Pending::Pending(Pending&&) noexcept = default;
Queue::Pending& Queue::Pending::operator=(Pending&&) noexcept = default;
Queue::Pending::~Pending() = default;

int Queue::Pending::descriptor() const noexcept { return impl_->event.get(); }

void Queue::Pending::cancel() noexcept { impl_->cancel(); }

bool Queue::Pending::is_get() const noexcept { return impl_->item.has_value(); }

Outcome Queue::Pending::take(Sample& item) {
  try {
    if (impl_->told.awaited) {
      const Outcome outcome = impl_->told.awaited->wait(kNow);
      return outcome == Outcome::kDone ? bus::QueueClient::outcome_of(impl_->told.awaited->take())
                                       : outcome;
    }
    const Outcome outcome =
        platform::with_memory_errors([&] { return impl_->item->take(item, kNow); });
    if (outcome == Outcome::kTimedOut) impl_->notify_again();
    return outcome;
  } catch (const Error& error) {
    if (error.code() != Code::kClosed) throw;
    return Outcome::kClosed;
  }
}

Queue::Pending Queue::start_put(const Message& item) {
  const State& state = *state_;
  return platform::with_memory_errors([&] {
    bus::SampleBuilder prepared = state.prepare(item);
    std::unique_ptr<Pending::Impl> impl(
        new Pending::Impl{state.participant, platform::make_event(), {}, {}});
    impl->told = state.client().start_put(prepared, true);
    prepared.mark_done();
    impl->told.awaited->on_done(impl->notify());
    return Pending(std::move(impl));
  });
}

Queue::Pending Queue::start_get() {
  const State& state = *state_;
  return platform::with_memory_errors([&] {
    std::unique_ptr<Pending::Impl> impl(
        new Pending::Impl{state.participant, platform::make_event(), {}, {}});
    impl->item.emplace(state.client().start_get(state.access(), true));
    impl->item->on_ready(impl->notify());
    return Pending(std::move(impl));
  });
}

Queue::Pending Queue::start_join() {
  const State& state = *state_;
  return platform::with_memory_errors([&] {
    std::unique_ptr<Pending::Impl> impl(
        new Pending::Impl{state.participant, platform::make_event(), {}, {}});
    impl->told = state.client().start_join();
    impl->told.awaited->on_done(impl->notify());
    return Pending(std::move(impl));
  });
}

void Queue::task_done(const GiveUp& give_up) {
  const State& state = *state_;
  platform::with_memory_errors([&] { state.client().task_done(give_up); });
}

Outcome Queue::join(const platform::StopCondition& stop) {
  const State& state = *state_;
  return platform::with_memory_errors([&] { return state.client().join(stop); });
}

Queue::Remaining Queue::shutdown(bool immediate, const GiveUp& give_up) {
  const State& state = *state_;
  return platform::with_memory_errors([&] {
    const link::Reply told = state.client().shut_down(immediate, give_up);
    return Remaining{told.first, told.second, told.third != 0};
  });
}

Outcome Queue::drain(const platform::StopCondition& stop) {
  const State& state = *state_;
  return platform::with_memory_errors([&] { return state.client().drain(stop); });
}

QueueStats Queue::stats(const GiveUp& give_up) const {
  const State& state = *state_;
  return platform::with_memory_errors([&] {
    const link::Reply told = state.client().state(give_up);
    return QueueStats{told.first, told.second, told.third, told.fourth};
  });
}

void Queue::close(const GiveUp& give_up) { state_->close(give_up); }

}  // namespace tensorbus
