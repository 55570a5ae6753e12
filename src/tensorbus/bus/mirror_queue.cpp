#include "tensorbus/bus/mirror_queue.hpp"

#include <utility>

#include "tensorbus/bus/event_loop/completion.hpp"
#include "tensorbus/bus/participant/participant.hpp"
#include "tensorbus/bus/queue/mirror_server.hpp"
#include "tensorbus/bus/queue_client/queue_markers.hpp"
#include "tensorbus/platform/limits.hpp"

namespace tensorbus::bus {
namespace {

constexpr std::size_t kMaxOfName = 255;  // bytes

void require_names(const link::MirrorOrigin& origin) {
  for (const std::string* name : {&origin.machine, &origin.publisher})
    if (name->empty() || name->size() > kMaxOfName)
      throw Error(Code::kInvalidArgument, "origin: a name of " + std::to_string(name->size()) +
                                              " bytes; expected 1 to " +
                                              std::to_string(kMaxOfName));
}

}  // namespace

MirrorQueue::MirrorQueue(const ParticipantRef& participant)
    : participant_(participant), events_(std::make_shared<MirrorEvents>()) {}

// The delegation makes the destructor close the mirror if a later step throws.
MirrorQueue::MirrorQueue(const QueueOptions& options, const link::MirrorOrigin& origin,
                         const ParticipantRef& participant)
    : MirrorQueue(participant) {
  platform::with_memory_errors([&] {
    require_names(origin);
    const auto awaited = std::make_shared<Completion<MadeMirror>>();
    participant_->context().post([awaited, options, events = events_](ParticipantContext& context) {
      awaited->set(context.queues->make_mirror(options, events));
    });
    (void)awaited->wait(platform::StopCondition::ignoring_signals(std::chrono::nanoseconds::max()));
    mirror_ = awaited->take();
    const QueueAddress address{participant_->id(), mirror_.name};
    text_ = to_text(address);
    const platform::MutexLock lock(mutex_);
    marker_ = add_queue_marker(participant_->domain(), options.name, address,
                               {.machine = origin.machine, .origin = origin.publisher});
  });
}

MirrorQueue::~MirrorQueue() { close(); }

// Runs `task` on the event loop.
void MirrorQueue::post(std::function<void(MirrorServer&)> task) const {
  participant_->context().post(
      [server = mirror_.server, task = std::move(task)](ParticipantContext&) { task(*server); });
}

// Returns what `ask` returns on the event loop.
template <typename T>
T MirrorQueue::ask(std::function<T(MirrorServer&)> ask) const {
  const auto awaited = std::make_shared<Completion<T>>();
  post([awaited, ask = std::move(ask)](MirrorServer& server) { awaited->set(ask(server)); });
  (void)awaited->wait(platform::StopCondition::ignoring_signals(std::chrono::nanoseconds::max()));
  return awaited->take();
}

// Returns false if the memory of the put has not arrived yet. An unreadable put is denied.
bool MirrorQueue::read_put(std::vector<Event>& taken) {
  try {
    const Outcome outcome = put_->reading.read(put_->event.item, std::chrono::nanoseconds(0));
    if (outcome != Outcome::kDone) {
      put_->reading.on_ready([events = events_] { events->signal(); });
      return false;
    }
    taken.push_back(std::move(put_->event));
  } catch (const Error& error) {
    post([id = put_->event.value, code = error.code(), text = std::string(error.what())](
             MirrorServer& server) { server.deny(id, Error(code, text)); });
  }
  put_.reset();
  return true;
}

const std::string& MirrorQueue::address() const { return text_; }

int MirrorQueue::descriptor() { return events_->descriptor(); }

std::vector<MirrorQueue::Event> MirrorQueue::take_events() {
  return platform::with_memory_errors([&] {
    const platform::MutexLock lock(mutex_);
    events_->clear();
    std::vector<Event> events;
    while (!put_ || read_put(events)) {
      auto next = events_->pop();
      if (!next) break;
      Event event{next->kind, next->value, next->verb, next->number, next->waits, {}};
      if (next->item)
        put_.emplace(PendingPut{std::move(event),
                                {participant_->context(), std::move(next->item), Access::kRead}});
      else
        events.push_back(std::move(event));
    }
    return events;
  });
}

void MirrorQueue::offer(const Message& item, std::uint64_t tag) {
  platform::with_memory_errors([&] {
    if (tag <= last_tag_.load(std::memory_order_relaxed))
      throw Error(Code::kInvalidArgument, "tag=" + std::to_string(tag) + ": expected more than " +
                                              std::to_string(last_tag_));
    SampleBuilder built(item.tensors, item, participant_->memory().supplies(memory::Grant::kRead));
    post([tag, entry = built.entry(), issued = built.issued()](MirrorServer& server) {
      server.offer(tag, {entry, issued});
    });
    built.mark_done();
    last_tag_.store(tag, std::memory_order_relaxed);
  });
}

bool MirrorQueue::withdraw(std::uint64_t tag) {
  return ask<bool>([tag](MirrorServer& server) { return server.withdraw(tag); });
}

std::vector<std::uint64_t> MirrorQueue::surplus() {
  return ask<std::vector<std::uint64_t>>(
      [](const MirrorServer& server) { return server.surplus(); });
}

void MirrorQueue::answer(std::uint64_t id, Outcome outcome, const Values& values) {
  post([=](MirrorServer& server) { server.answer(id, outcome, values); });
}

void MirrorQueue::deny(std::uint64_t id, const Error& why) {
  post([id, code = why.code(), text = std::string(why.what())](MirrorServer& server) {
    server.deny(id, Error(code, text));
  });
}

void MirrorQueue::end_gets(std::optional<std::uint64_t> died) {
  post([died](MirrorServer& server) { server.end_gets(died); });
}

void MirrorQueue::close() {
  if (!mirror_.server) return;
  std::string marker;
  {
    const platform::MutexLock lock(mutex_);
    marker.swap(marker_);
  }
  if (!marker.empty()) participant_->domain().remove_file(marker);
  participant_->context().post([number = mirror_.name.number](ParticipantContext& context) {
    context.queues->close(number);
  });
}

}  // namespace tensorbus::bus
