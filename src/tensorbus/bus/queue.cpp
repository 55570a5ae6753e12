#include "tensorbus/bus/queue.hpp"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tensorbus/bus/domain/topic_name.hpp"
#include "tensorbus/bus/participant/participant_core.hpp"
#include "tensorbus/bus/queue_client/queue_client.hpp"
#include "tensorbus/bus/queue_client/queue_markers.hpp"
#include "tensorbus/platform/limits.hpp"
#include "tensorbus/platform/waiting/poller.hpp"

namespace tensorbus {
namespace {

constexpr std::chrono::nanoseconds kNow{};

struct OpenedQueue {
  bus::QueueAddress address;
  link::Reply told;
};

OpenedQueue open_at(bus::ParticipantCore& core, const bus::QueueAddress& address,
                    const platform::StopCondition& stop) {
  return {address, bus::QueueClient(core, address).open(stop)};
}

// Waits for a queue of this name. One whose process is about to end does not count: another may be
// made. Throws Error(kTimeout) if none is made in time.
OpenedQueue open_named(bus::ParticipantCore& core, const std::string& name,
                       const platform::StopCondition& stop) {
  const bus::Domain& domain = core.domain();
  std::optional<OpenedQueue> opened;
  const auto try_open = [&] {
    const auto found = bus::find_queue(domain, name);
    if (!found) return false;
    try {
      opened = open_at(core, *found, stop);
    } catch (const Error& error) {
      if (error.code() != Code::kClosed) throw;
    }
    return opened.has_value();
  };
  if (domain.wait(stop, try_open) == Outcome::kDone) return *opened;
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

Queue::Queue(const QueueOptions& options, const Participant& participant,
             const link::MirrorOrigin& origin) {
  platform::with_memory_errors([&] {
    state_.emplace(participant.core(), options);
    State& state = *state_;
    bus::ParticipantCore& core = *state.participant;
    state.address = {core.id(), bus::make_queue(core, options)};
    state.made_here = true;
    state.text = bus::to_text(state.address);
    if (options.name.empty()) return;
    state.marker = bus::add_queue_marker(core.domain(), options.name, state.address,
                                         {.machine = origin.machine, .origin = origin.publisher});
  });
}

Queue Queue::elsewhere(const Participant& participant, QueueOptions options,
                       const bus::QueueAddress& address) {
  bus::ForkSafe<State> state;
  state.emplace(participant.core(), std::move(options), address, bus::to_text(address));
  return Queue(std::move(state));
}

Queue Queue::open(const std::string& address_or_name, const platform::StopCondition& stop,
                  const Participant& participant) {
  return platform::with_memory_errors([&] {
    bus::ParticipantCore& core = *participant.core();
    const bool named = !bus::is_queue_address(address_or_name);
    auto [address, told] = named ? open_named(core, address_or_name, stop)
                                 : open_at(core, bus::parse_queue_address(address_or_name), stop);
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
      [&] { return elsewhere(participant, options, bus::parse_queue_address(address)); });
}

std::vector<std::string> Queue::addresses_of(const std::string& name,
                                             const Participant& participant) {
  return platform::with_memory_errors([&] {
    std::vector<std::string> all;
    for (const bus::QueueAddress& queue : bus::marked_queues(participant.core()->domain(), name))
      all.push_back(bus::to_text(queue));
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
  bus::QueueClient::Request told{};     // for a put or a call
  std::optional<bus::QueueGet> item{};  // for a get
  link::Reply reply{};                  // to a call, once it was taken
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
  Outcome take_reply() {
    const Outcome outcome = told.awaited->wait(kNow);
    if (outcome != Outcome::kDone) return outcome;
    reply = told.awaited->take();
    return bus::QueueClient::outcome_of(reply);
  }
  Outcome take_item(Sample& to) {
    const Outcome outcome = platform::with_memory_errors([&] { return item->take(to, kNow); });
    if (outcome == Outcome::kTimedOut && !item->answered()) notify_again();
    return outcome;
  }
};

Queue::Pending::Pending(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Queue::Pending::Pending(Pending&&) noexcept = default;
Queue::Pending& Queue::Pending::operator=(Pending&&) noexcept = default;
Queue::Pending::~Pending() = default;

int Queue::Pending::descriptor() const noexcept { return impl_->event.get(); }

void Queue::Pending::cancel() noexcept { impl_->cancel(); }

bool Queue::Pending::is_get() const noexcept { return impl_->item.has_value(); }

bool Queue::Pending::answered() const noexcept {
  return impl_->item ? impl_->item->answered() : impl_->told.awaited->done();
}

std::array<std::uint64_t, 4> Queue::Pending::values() const noexcept {
  const link::Reply& reply = impl_->reply;
  return {reply.first, reply.second, reply.third, reply.fourth};
}

std::uint64_t Queue::Pending::number() const noexcept {
  return impl_->item ? impl_->item->number() : 0;
}

void Queue::Pending::request_cancel() {
  if (impl_->told.cancel) impl_->told.cancel();
}

Outcome Queue::Pending::take(Sample& item) {
  try {
    return impl_->item ? impl_->take_item(item) : impl_->take_reply();
  } catch (const Error& error) {
    if (error.code() != Code::kClosed) throw;
    return Outcome::kClosed;
  }
}

Outcome Queue::Pending::accept() {
  if (!impl_->item) throw Error(Code::kInvalidArgument, "accept() of what is no get");
  const Outcome outcome = platform::with_memory_errors([&] { return impl_->item->accept(kNow); });
  if (outcome == Outcome::kTimedOut) impl_->notify_again();
  return outcome;
}

void Queue::Pending::spoil() {
  if (!impl_->item) throw Error(Code::kInvalidArgument, "spoil() of what is no get");
  platform::with_memory_errors([&] { impl_->item->spoil(); });
}

Queue::Pending Queue::start_put(const Message& item, bool waits) {
  const State& state = *state_;
  return platform::with_memory_errors([&] {
    bus::SampleBuilder prepared = state.prepare(item);
    std::unique_ptr<Pending::Impl> impl(
        new Pending::Impl{state.participant, platform::make_event()});
    impl->told = state.client().start_put(prepared, waits);
    prepared.mark_done();
    impl->told.awaited->on_done(impl->notify());
    return Pending(std::move(impl));
  });
}

Queue::Pending Queue::start_get(bool holds, bool waits) {
  const State& state = *state_;
  return platform::with_memory_errors([&] {
    std::unique_ptr<Pending::Impl> impl(
        new Pending::Impl{state.participant, platform::make_event()});
    impl->item.emplace(state.client().start_get(state.access(), {waits, holds}));
    impl->item->on_ready(impl->notify());
    return Pending(std::move(impl));
  });
}

Queue::Pending Queue::start_call(link::QueueVerb verb, std::uint64_t number) {
  const State& state = *state_;
  return platform::with_memory_errors([&] {
    std::unique_ptr<Pending::Impl> impl(
        new Pending::Impl{state.participant, platform::make_event()});
    impl->told = state.client().start_call(verb, number);
    impl->told.awaited->on_done(impl->notify());
    return Pending(std::move(impl));
  });
}

Queue::Pending Queue::start_join() { return start_call(link::QueueVerb::kJoin); }

void Queue::call(link::QueueVerb verb, std::uint64_t number, const GiveUp& give_up) {
  const State& state = *state_;
  platform::with_memory_errors([&] { (void)state.client().call(verb, give_up, number); });
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
