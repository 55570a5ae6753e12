#include "tensorbus/bus/queue.hpp"

#include <algorithm>
#include <exception>
#include <list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tensorbus/bus/participant/participant.hpp"
#include "tensorbus/bus/queue_client/open_queue.hpp"
#include "tensorbus/bus/queue_client/queue_client.hpp"
#include "tensorbus/bus/queue_client/queue_markers.hpp"
#include "tensorbus/bus/queue_client/queue_rings.hpp"
#include "tensorbus/bus/subscribe/pinning.hpp"
#include "tensorbus/platform/limits.hpp"
#include "tensorbus/platform/waiting/poller.hpp"

namespace tensorbus::bus {
namespace {
constexpr std::chrono::nanoseconds kNow{};
}  // namespace

// With `pin`, throws before a queue is made.
Queue::Queue(const ParticipantRef& participant, QueueOptions options)
    : participant_(participant), options_(std::move(options)) {
  if (options_.pin) pin();
}

// The delegation makes the destructor close the queue if a later step throws.
Queue::Queue(const QueueOptions& options, const ParticipantRef& participant,
             const link::MirrorOrigin& origin)
    : Queue(participant, options) {
  platform::with_memory_errors([&] {
    address_ = {participant_->id(), make_queue(participant_->context(), options)};
    made_here_ = true;
    rings_ = participant_->queue_rings(address_);
    text_ = to_text(address_);
    if (options.name.empty()) return;
    marker_ = add_queue_marker(participant_->domain(), options.name, address_,
                               {.machine = origin.machine, .origin = origin.publisher});
  });
}

Queue::Queue(const ParticipantRef& participant, QueueOptions options, const QueueAddress& address)
    : Queue(participant, std::move(options)) {
  address_ = address;
  text_ = to_text(address);
  rings_ = participant_->queue_rings(address);
}

Queue::~Queue() {
  if (participant_ && made_here_) close();
}

QueueClient Queue::client() const { return {participant_->context(), address_, rings_}; }

QueueClient Queue::getting_client() const {
  if (pinning_) pinning_->require(access());
  return {participant_->context(), address_, rings_, pinning_};
}

Access Queue::access() const noexcept {
  if (wanted_) return *wanted_;
  return options_.shared ? Access::kShared : Access::kRead;
}

memory::Grant Queue::grant() const noexcept {
  return options_.shared ? memory::Grant::kWrite : memory::Grant::kRead;
}

std::size_t Queue::put_at_once(std::span<const Message> items,
                               const platform::StopCondition& stop) const {
  return stop.timeout() > kNow ? rings_->putter->put_soon(items) : rings_->putter->put_now(items);
}

bool Queue::put_at_once(const SampleBuilder& item, const platform::StopCondition& stop) const {
  return stop.timeout() > kNow ? rings_->putter->put_soon(item) : rings_->putter->put_now(item);
}

// Without a time-out, makes only one attempt: a wait for memory would have no limit, and possibly
// no process frees any.
Outcome Queue::when_there_is_room(const platform::StopCondition& stop,
                                  const std::function<void()>& prepare) const {
  if (stop.timeout() != kForever) return participant_->memory().when_there_is_room(stop, prepare);
  prepare();
  return Outcome::kDone;
}

// Appends as many items as there is memory for. Returns the error of the first item that failed, if
// any.
std::exception_ptr Queue::prepare_all(std::span<const Message> items, std::list<SampleBuilder>& to,
                                      const platform::StopCondition& stop, Outcome& outcome) const {
  try {
    for (const Message& item : items) {
      outcome = when_there_is_room(stop, [&] {
        to.emplace_back(item.tensors, item, participant_->memory().supplies(grant()));
      });
      if (outcome != Outcome::kDone) break;
    }
  } catch (...) {
    return std::current_exception();
  }
  return nullptr;
}

Queue Queue::open(const std::string& address_or_name, const platform::StopCondition& stop,
                  const ParticipantRef& participant, const std::string& ended) {
  return platform::with_memory_errors([&] {
    const bool named = !is_queue_address(address_or_name);
    std::optional<QueueAddress> ended_queue;
    if (!ended.empty()) ended_queue = parse_queue_address(ended);
    auto [address, settings] =
        named ? open_named_queue(participant->context(), participant->domain(), address_or_name,
                                 stop, ended_queue)
              : open_queue(participant->context(), parse_queue_address(address_or_name), stop);
    address.queue.key = settings.key;
    return Queue(participant,
                 {.maxsize = static_cast<std::uint32_t>(settings.maxsize),
                  .redeliver = settings.redeliver,
                  .shared = settings.shared,
                  .name = named ? address_or_name : "",
                  .max_bytes = settings.max_bytes},
                 address);
  });
}

Queue Queue::at(const std::string& address, const QueueOptions& options,
                const ParticipantRef& participant) {
  return platform::with_memory_errors(
      [&] { return Queue(participant, options, parse_queue_address(address)); });
}

std::vector<std::string> Queue::addresses_of(const std::string& name,
                                             const ParticipantRef& participant) {
  return platform::with_memory_errors([&] {
    std::vector<std::string> all;
    for (const QueueAddress& queue : marked_queues(participant->domain(), name))
      all.push_back(to_text(queue));
    return all;
  });
}

void Queue::receive_with(Access access) { wanted_ = access; }

void Queue::pin() {
  const auto pinning = std::make_shared<Pinning>();
  pinning->require(access());
  options_.pin = true;
  pinning_ = pinning;
}

void Queue::pin_later() {
  options_.pin = true;
  pinning_ = std::make_shared<Pinning>();
}

void Queue::require_pinning(Access access) { Pinning().require(access); }

const std::string& Queue::address() const { return text_; }

const QueueOptions& Queue::options() const { return options_; }

bool Queue::made_here() const { return made_here_; }

Outcome Queue::put(const Message& item, const platform::StopCondition& stop) {
  return platform::with_memory_errors([&] {
    if (put_at_once({&item, 1}, stop) == 1) return Outcome::kDone;
    std::optional<SampleBuilder> prepared;
    const Outcome ready = when_there_is_room(stop, [&] {
      prepared.emplace(item.tensors, item, participant_->memory().supplies(grant()));
    });
    if (ready != Outcome::kDone) return ready;
    const Outcome outcome =
        put_at_once(*prepared, stop) ? Outcome::kDone : client().put(*prepared, stop);
    if (outcome == Outcome::kDone) prepared->mark_done();
    return outcome;
  });
}

Outcome Queue::get(Sample& item, const platform::StopCondition& stop) {
  return platform::with_memory_errors([&] { return getting_client().get(item, access(), stop); });
}

bool Queue::put_now(const Message& item) {
  return platform::with_memory_errors([&] { return rings_->putter->put_now({&item, 1}) == 1; });
}

Outcome Queue::put_many(std::span<const Message> items, std::size_t& count,
                        const platform::StopCondition& stop) {
  constexpr std::size_t kBatch = 128;
  count = 0;
  return platform::with_memory_errors([&] {
    Outcome outcome = Outcome::kDone;
    while (outcome == Outcome::kDone) {
      count += put_at_once(items.subspan(count), stop);
      if (count == items.size()) break;
      const std::size_t batch =
          rings_->putter->has_ring() ? 1 : kBatch;  // with a ring, the next item needs no request
      std::list<SampleBuilder> prepared;
      const std::exception_ptr why_not_all = prepare_all(
          items.subspan(count, std::min(batch, items.size() - count)), prepared, stop, outcome);
      const auto on_put = [&] {
        prepared.front().mark_done();
        prepared.pop_front();
        ++count;
      };
      while (!prepared.empty() && put_at_once(prepared.front(), stop)) on_put();
      const Outcome put = client().put_many(prepared, stop, on_put);
      if (put != Outcome::kDone) outcome = put;
      if (outcome == Outcome::kDone && why_not_all) std::rethrow_exception(why_not_all);
    }
    return outcome;
  });
}

Outcome Queue::get_many(std::vector<Sample>& items, std::size_t most,
                        const platform::StopCondition& stop) {
  return platform::with_memory_errors(
      [&] { return getting_client().get_many(items, most, access(), stop); });
}

struct Queue::Pending::Impl {
  ParticipantRef participant;
  platform::Fd event{};            // made by descriptor()
  QueueClient::Request request{};  // for a put or a call
  std::optional<QueueGet> item{};  // for a get
  link::Reply reply{};             // to a call, after take()
  const std::uint32_t fork_generation = platform::fork_generation();

  ~Impl() {
    if (fork_generation != platform::fork_generation()) {
      platform::abandon(std::move(participant));
      platform::abandon(std::move(request));
      platform::abandon(std::move(item));
    } else {
      cancel();
    }
  }
  void cancel() noexcept {
    try {
      if (item) item->cancel();
      if (request.cancel && request.awaited->give_up()) request.cancel();
    } catch (const std::exception&) {  // no memory: the server is notified when this process ends
    }
  }
  // Returns a callback with a duplicate of the eventfd, because the callback may outlive this
  // object.
  std::function<void()> notify() const {
    auto sender = std::make_shared<platform::Fd>(platform::duplicate(event.get()));
    return [sender] { platform::signal_event(sender->get()); };
  }
  int descriptor() {
    if (event) return event.get();
    event = platform::make_event();
    if (item)
      item->on_ready(notify());
    else
      request.awaited->on_done(notify());
    return event.get();
  }
  // Re-arms the descriptor; it is readable at once if a result has come by now.
  void notify_again() {
    if (!event) return;
    platform::clear_event(event.get());
    item->on_ready(notify());
  }
  // Returns the completion to wait for; null if take() now waits for something else.
  CompletionState* awaited() const noexcept {
    return item ? item->awaited() : request.awaited.get();
  }
  Outcome take_reply() {
    const Outcome outcome = request.awaited->wait(kNow);
    if (outcome != Outcome::kDone) return outcome;
    reply = request.awaited->take();
    return QueueClient::outcome_of(reply);
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

int Queue::Pending::descriptor() const {
  return platform::with_memory_errors([&] { return impl_->descriptor(); });
}

void Queue::Pending::cancel() noexcept { impl_->cancel(); }

bool Queue::Pending::is_get() const noexcept { return impl_->item.has_value(); }

bool Queue::Pending::answered() const noexcept {
  return impl_->item ? impl_->item->answered() : impl_->request.awaited->done();
}

std::array<std::uint64_t, 4> Queue::Pending::values() const noexcept { return impl_->reply.values; }

std::uint64_t Queue::Pending::number() const noexcept {
  return impl_->item ? impl_->item->number() : 0;
}

void Queue::Pending::request_cancel() {
  if (impl_->request.cancel) impl_->request.cancel();
}

Outcome Queue::Pending::take(Sample& item) {
  try {
    return impl_->item ? impl_->take_item(item) : impl_->take_reply();
  } catch (const Error& error) {
    if (error.code() != Code::kClosed) throw;
    return Outcome::kClosed;
  }
}

bool Queue::Pending::wait(const platform::StopCondition& stop, Pending* other) {
  CompletionState* const first = impl_->awaited();
  CompletionState* const second = other != nullptr ? other->impl_->awaited() : nullptr;
  if (first == nullptr || (other != nullptr && second == nullptr)) return false;
  EventLoop::Driver driver(impl_->participant->context().loop, false);
  const auto sleep = [&](auto most) {
    return impl_->item ? impl_->item->sleep_on_rings(stop, most, second) : std::nullopt;
  };
  (void)first->wait_driving(stop, driver, second, sleep);
  return true;
}

Outcome Queue::get_while(Sample& item, const Pending& unanswered,
                         const platform::StopCondition& stop) {
  return platform::with_memory_errors(
      [&] { return getting_client().get(item, access(), stop, unanswered.impl_->awaited()); });
}

Outcome Queue::Pending::accept() {
  if (!impl_->item) throw Error(Code::kInvalidArgument, "accept(): this request is not a get");
  const Outcome outcome = platform::with_memory_errors([&] { return impl_->item->accept(kNow); });
  if (outcome == Outcome::kTimedOut) impl_->notify_again();
  return outcome;
}

void Queue::Pending::spoil() {
  if (!impl_->item) throw Error(Code::kInvalidArgument, "spoil(): this request is not a get");
  platform::with_memory_errors([&] { impl_->item->spoil(); });
}

Queue::Pending Queue::start_put(const Message& item, bool waits) {
  return platform::with_memory_errors([&] {
    std::unique_ptr<Pending::Impl> impl(new Pending::Impl{participant_});
    if (put_now(item)) {
      impl->request.awaited = QueueClient::answered();
      return Pending(std::move(impl));
    }
    SampleBuilder prepared(item.tensors, item, participant_->memory().supplies(grant()));
    if (rings_->putter->put_now(prepared, QueuePutter::IfBusy::kGiveUp))
      impl->request.awaited = QueueClient::answered();
    else
      impl->request = client().start_put(prepared, waits);
    prepared.mark_done();
    return Pending(std::move(impl));
  });
}

Queue::Pending Queue::start_get(bool holds, bool waits) {
  return platform::with_memory_errors([&] {
    std::unique_ptr<Pending::Impl> impl(new Pending::Impl{participant_});
    impl->item.emplace(getting_client().start_get(access(), {waits, holds}));
    return Pending(std::move(impl));
  });
}

Queue::Pending Queue::start_call(link::QueueVerb verb, std::uint64_t number) {
  return platform::with_memory_errors([&] {
    std::unique_ptr<Pending::Impl> impl(new Pending::Impl{participant_});
    impl->request = client().start_call(verb, number);
    return Pending(std::move(impl));
  });
}

Queue::Pending Queue::start_join() { return start_call(link::QueueVerb::kJoin); }

void Queue::call(link::QueueVerb verb, std::uint64_t number, const GiveUp& give_up) {
  platform::with_memory_errors([&] { (void)client().call(verb, give_up, number); });
}

void Queue::task_done(const GiveUp& give_up) {
  platform::with_memory_errors([&] { client().task_done(give_up); });
}

Outcome Queue::join(const platform::StopCondition& stop) {
  return platform::with_memory_errors([&] { return client().join(stop); });
}

Queue::Remaining Queue::shutdown(bool immediate, const GiveUp& give_up) {
  return platform::with_memory_errors([&] {
    const link::QueueRest rest = client().shut_down(immediate, give_up);
    return Remaining{rest.items, rest.other_getters, rest.has_asked};
  });
}

Outcome Queue::drain(const platform::StopCondition& stop) {
  return platform::with_memory_errors([&] { return client().drain(stop); });
}

QueueStats Queue::stats(const GiveUp& give_up) const {
  return platform::with_memory_errors([&] {
    const link::QueueState state = client().state(give_up);
    return QueueStats{state.items, state.unfinished, state.lost, state.bytes};
  });
}

void Queue::close(const GiveUp& give_up) {
  if (!marker_.empty()) participant_->domain().remove_file(marker_);
  client().close(give_up);
}

}  // namespace tensorbus::bus
