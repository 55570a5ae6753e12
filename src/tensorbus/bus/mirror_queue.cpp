#include "tensorbus/bus/mirror_queue.hpp"

#include <atomic>
#include <functional>
#include <utility>

#include "tensorbus/bus/event_loop/completion.hpp"
#include "tensorbus/bus/participant/participant_core.hpp"
#include "tensorbus/bus/participant/sample_read.hpp"
#include "tensorbus/bus/queue/mirror_host.hpp"
#include "tensorbus/bus/queue_client/queue_markers.hpp"
#include "tensorbus/bus/session/queue_requests.hpp"
#include "tensorbus/platform/limits.hpp"

namespace tensorbus {
namespace {

constexpr std::size_t kMostOfName = 255;  // bytes

void check_origin(const link::MirrorOrigin& origin) {
  for (const std::string* name : {&origin.machine, &origin.publisher})
    if (name->empty() || name->size() > kMostOfName)
      throw Error(Code::kInvalidArgument, "origin: a name of " + std::to_string(name->size()) +
                                              " bytes; expected 1 to " +
                                              std::to_string(kMostOfName));
}

}  // namespace

struct MirrorQueue::State {
  static constexpr const char* kMovedFrom = "this queue was moved from";
  const std::shared_ptr<bus::ParticipantCore> participant;
  const std::shared_ptr<bus::MirrorEvents> events = std::make_shared<bus::MirrorEvents>();
  bus::MadeMirror mirror{};
  std::string text{};  // the address as text
  std::string marker{};

  struct PendingPut {
    MirrorQueue::Event event;
    bus::SampleRead reading;
  };
  std::atomic<std::uint64_t> last_tag{0};  // relaxed: one thread offers items
  platform::Mutex mutex{};
  std::optional<PendingPut> put TB_GUARDED_BY(mutex){};

  ~State() { close(); }

  // Runs `task` on the event loop.
  void post(std::function<void(bus::MirrorHost&)> task) const {
    participant->post(
        [host = mirror.host, task = std::move(task)](bus::ParticipantContext&) { task(*host); });
  }
  // Returns what `ask` returns on the event loop.
  template <typename T>
  T ask(std::function<T(bus::MirrorHost&)> ask) const {
    const auto awaited = std::make_shared<bus::Completion<T>>();
    post([awaited, ask = std::move(ask)](bus::MirrorHost& host) { awaited->set(ask(host)); });
    (void)awaited->wait(platform::StopCondition::ignoring_signals(std::chrono::nanoseconds::max()));
    return awaited->take();
  }
  void close() {
    if (!mirror.host) return;
    if (!marker.empty()) participant->domain().remove_file(std::exchange(marker, {}));
    participant->post([number = mirror.name.number](bus::ParticipantContext& context) {
      context.queues->close(number);
    });
  }

  // Returns false if the memory of the put has not arrived yet. An unreadable put is denied.
  bool read_put(std::vector<MirrorQueue::Event>& taken) TB_REQUIRES(mutex) {
    try {
      const Outcome outcome = put->reading.read(put->event.item, std::chrono::nanoseconds(0));
      if (outcome != Outcome::kDone) {
        put->reading.on_ready([told = events] { told->signal(); });
        return false;
      }
      taken.push_back(std::move(put->event));
    } catch (const Error& error) {
      post([id = put->event.value, code = error.code(), text = std::string(error.what())](
               bus::MirrorHost& host) { host.deny(id, Error(code, text)); });
    }
    put.reset();
    return true;
  }
};

MirrorQueue::MirrorQueue(const QueueOptions& options, const link::MirrorOrigin& origin,
                         const Participant& participant) {
  platform::with_memory_errors([&] {
    check_origin(origin);
    state_.emplace(participant.core());
    State& state = *state_;
    bus::ParticipantCore& core = *state.participant;
    const auto awaited = std::make_shared<bus::Completion<bus::MadeMirror>>();
    core.post([awaited, options, events = state.events](bus::ParticipantContext& context) {
      awaited->set(context.queues->make_mirror(options, events));
    });
    (void)awaited->wait(platform::StopCondition::ignoring_signals(std::chrono::nanoseconds::max()));
    state.mirror = awaited->take();
    const bus::QueueAddress address{core.id(), state.mirror.name};
    state.text = bus::to_text(address);
    state.marker = bus::add_queue_marker(core.domain(), options.name, address,
                                         {.machine = origin.machine, .origin = origin.publisher});
  });
}
MirrorQueue::MirrorQueue(MirrorQueue&&) noexcept = default;
MirrorQueue& MirrorQueue::operator=(MirrorQueue&&) noexcept = default;
MirrorQueue::~MirrorQueue() = default;

const std::string& MirrorQueue::address() const { return state_->text; }

int MirrorQueue::descriptor() { return state_->events->descriptor(); }

std::vector<MirrorQueue::Event> MirrorQueue::take_events() {
  State& state = *state_;
  return platform::with_memory_errors([&] {
    const platform::MutexLock lock(state.mutex);
    state.events->clear();
    std::vector<Event> events;
    while (!state.put || state.read_put(events)) {
      auto next = state.events->pop();
      if (!next) break;
      Event event{next->kind, next->value, next->verb, next->number, next->waits, {}};
      if (next->item)
        state.put.emplace(State::PendingPut{
            std::move(event), {*state.participant, std::move(next->item), Access::kRead}});
      else
        events.push_back(std::move(event));
    }
    return events;
  });
}

void MirrorQueue::offer(const Message& item, std::uint64_t tag) {
  State& state = *state_;
  platform::with_memory_errors([&] {
    if (tag <= state.last_tag.load(std::memory_order_relaxed))
      throw Error(Code::kInvalidArgument, "tag=" + std::to_string(tag) + ": expected more than " +
                                              std::to_string(state.last_tag));
    bus::SampleBuilder built(item.tensors, item, state.participant->supplies(memory::Grant::kRead));
    state.post([tag, entry = built.entry(), issued = built.issued()](bus::MirrorHost& host) {
      host.offer(tag, {entry, issued});
    });
    built.mark_done();
    state.last_tag.store(tag, std::memory_order_relaxed);
  });
}

bool MirrorQueue::withdraw(std::uint64_t tag) {
  return state_->ask<bool>([tag](bus::MirrorHost& host) { return host.withdraw(tag); });
}

std::vector<std::uint64_t> MirrorQueue::surplus() {
  return state_->ask<std::vector<std::uint64_t>>(
      [](const bus::MirrorHost& host) { return host.surplus(); });
}

void MirrorQueue::answer(std::uint64_t id, Outcome outcome, const Values& values) {
  state_->post([=](bus::MirrorHost& host) { host.answer(id, outcome, values); });
}

void MirrorQueue::deny(std::uint64_t id, const Error& why) {
  state_->post([id, code = why.code(), text = std::string(why.what())](bus::MirrorHost& host) {
    host.deny(id, Error(code, text));
  });
}

void MirrorQueue::end_gets(std::optional<std::uint64_t> died) {
  state_->post([died](bus::MirrorHost& host) { host.end_gets(died); });
}

void MirrorQueue::close() { state_->close(); }

}  // namespace tensorbus
