// The part of QueueClient that gets items.
#include <algorithm>
#include <functional>
#include <list>
#include <optional>
#include <span>
#include <thread>
#include <tuple>
#include <utility>

#include "tensorbus/bus/queue_client/call_limits.hpp"
#include "tensorbus/bus/queue_client/queue_client.hpp"
#include "tensorbus/bus/subscribe/sample_data.hpp"

namespace tensorbus::bus {
namespace {

// Spins for a few microseconds: fast replies come from another core.
constexpr int kLooksBeforeYield = 96;
// Longer than an ItemPin waits.
constexpr std::chrono::nanoseconds kPinLimit = 2 * ItemPin::kPatience;
constexpr int kLooksAtTheClock = 16;  // looks per reading of the clock: both take equally long

// Reserves room in advance: no call may throw once an item was taken.
void reserve_one(std::vector<Sample>& items) {
  if (items.size() == items.capacity()) items.reserve(std::max<std::size_t>(2 * items.size(), 1));
}

// Waits until the socket has the acceptances: then the server gets them, even if this process dies.
void wait_until_sent(link::Channel& channel) {
  const std::uint64_t mark = channel.mark();
  (void)StopCondition::ignoring_signals(kGrace).wait(
      [&] {
        channel.flush();
        return channel.has_taken(mark);
      },
      [&](std::chrono::nanoseconds most) {
        platform::wait_until_writable(channel.fd(), most);
        return platform::FutexWait::kWoken;
      });
}

}  // namespace

QueueGet QueueClient::start_get(Access access, QueueGet::Mode mode) const {
  return {participant_, address_, access, mode, begin_get(), pinning_};
}

std::shared_ptr<UnderWay::Request> QueueClient::begin_get() const {
  return rings_ && !is_server() ? rings_->getter->begin_by_message() : nullptr;
}

bool QueueClient::take_now(std::vector<Sample>& items, std::size_t most, Access access) const {
  return is_server() ? take_here(items, most, access) : take_ahead(items, most, access);
}

// If more items wait than were lent, polls for them: the server may be lending them now.
bool QueueClient::take_ahead(std::vector<Sample>& items, std::size_t most, Access access) const {
  if (!rings_) return false;
  QueueGetter& getter = *rings_->getter;
  std::size_t taken = 0;
  Sample item;
  const auto take_all = [&] {
    const std::size_t before = taken;
    for (; taken < most; ++taken) {
      reserve_one(items);
      if (!getter.take(item, access)) break;
      items.push_back(std::move(item));
    }
    return taken != before;
  };
  try {
    take_all();
    while (most > 1 && taken < most) {
      if (!getter.more()) return taken != 0;
      const platform::Deadline deadline(platform::AdaptiveSpin::most());
      while (!take_all()) {
        if (deadline.passed()) return false;
        std::this_thread::yield();
      }
    }
  } catch (const std::exception&) {  // the caller gets the taken items; its next call may fail
  }
  return false;
}

bool QueueClient::take_here(std::vector<Sample>& items, std::size_t most, Access access,
                            bool after_messages) const {
  bool none_left = false;
  Sample sample;
  const auto read_item = [&](const LentRef& held) {
    return SampleData::read_held(sample, held, {.access = access});
  };
  const QueueRequests::ReadItem read = std::ref(read_item);  // allocates nothing
  const auto take_all = [&](ParticipantContext& context) {
    for (; most != 0; --most) {
      reserve_one(items);
      const auto number = context.queues->take_now(address_.queue, read, none_left);
      if (!number) return;
      items.push_back(std::exchange(sample, {}));
      participant_.taken_items.add(name(), *number);
    }
  };
  try {
    (void)participant_.run_now(take_all, after_messages);
  } catch (const std::exception&) {  // the caller gets the taken items; its next call may fail
  }
  return none_left;
}

Outcome QueueClient::get(Sample& item, Access access, const StopCondition& stop,
                         CompletionState* life) const {
  bool none_left = false;
  if (take_soon(item, access, stop, none_left)) {
    pin_taken({&item, 1});
    return Outcome::kDone;
  }
  if (none_left && !waits_for(stop)) return Outcome::kTimedOut;
  const auto begin = platform::Clock::now();
  const Outcome outcome = get_by_message(item, access, stop, life);
  if (rings_ && outcome == Outcome::kDone) rings_->getter->asked(platform::Clock::now() - begin);
  return outcome;
}

// Takes an item without a request. If the last items came in quick succession, polls for it. The
// time limit of polling runs from the first reading of the clock.
bool QueueClient::take_soon(Sample& item, Access access, const StopCondition& stop,
                            bool& none_left) const {
  const bool looks = waits_for(stop) && rings_ && rings_->getter->looks();
  std::optional<platform::Deadline> deadline;
  const auto over = [&] {
    if (!deadline) deadline.emplace(std::min(platform::AdaptiveSpin::most(), stop.timeout()));
    return deadline->passed();
  };
  std::vector<Sample> taken;
  for (int look = 1;; ++look) {
    none_left = take_now(taken, 1, access);
    if (!taken.empty() || !looks) break;
    const bool yields = look > kLooksBeforeYield;
    if (yields) std::this_thread::yield();
    if ((yields || look % kLooksAtTheClock == 0) && over()) break;
  }
  if (looks) rings_->getter->looked(!taken.empty());
  if (none_left && taken.empty() && !waits_for(stop)) {  // handles unread messages first
    none_left = false;
    none_left = take_here(taken, 1, access, true);
  }
  if (taken.empty()) return false;
  item = std::move(taken.front());
  return true;
}

Outcome QueueClient::get_by_message(Sample& item, Access access, const StopCondition& stop,
                                    CompletionState* life) const {
  EventLoop::Driver driver(participant_.loop, address_.server != participant_.self);
  QueueGet getting =
      start_get(access, {.waits = waits_for(stop), .patience = PatientRequest::patience_of(stop)});
  return closed_is_an_outcome([&] {
    try {
      Outcome outcome = getting.take(item, patience(stop), &driver, life);
      if (outcome == Outcome::kTimedOut && getting.has_come()) {  // the reply has just come
        const std::chrono::nanoseconds to_pin = pinning_ ? kPinLimit : 0ns;
        outcome = getting.take(item, StopCondition(to_pin, stop.give_up()), &driver);
      }
      if (outcome != Outcome::kDone) getting.cancel();
      return outcome;
    } catch (...) {
      getting.cancel();
      throw;
    }
  });
}

// The items belong to the caller: no signal ends the wait for the owners of their memory.
void QueueClient::pin_taken(std::span<Sample> items) const {
  if (!pinning_) return;
  try {
    EventLoop::Driver driver(participant_.loop, false);
    std::list<std::pair<ItemPin, Sample*>> asked;
    for (Sample& item : items) {
      asked.emplace_back(std::piecewise_construct, std::forward_as_tuple(participant_, pinning_),
                         std::forward_as_tuple(&item));
      if (asked.back().first.pin(item, 0ns) == Outcome::kDone) asked.pop_back();
    }
    for (auto& [pin, item] : asked)
      (void)pin.pin(*item, StopCondition::ignoring_signals(kPinLimit), &driver);
  } catch (const std::exception&) {  // no memory: the items work without the pin
  }
}

Outcome QueueClient::get_many(std::vector<Sample>& items, std::size_t most, Access access,
                              const StopCondition& stop) const {
  const std::size_t before = items.size();
  const Outcome outcome = take_many(items, most, access, stop);
  pin_taken(std::span(items).subspan(before));
  return outcome;
}

Outcome QueueClient::take_many(std::vector<Sample>& items, std::size_t most, Access access,
                               const StopCondition& stop) const {
  constexpr std::size_t kFirst = 4;
  constexpr std::size_t kMax = 64;  // maximum number of requests at a time
  const std::size_t end = items.size() + most;
  items.reserve(items.size() + 1);  // no call may throw once an item was taken
  const std::size_t before = items.size();
  if (take_now(items, most, access) && items.size() != before) return Outcome::kDone;
  if (items.size() == before) {
    Sample first;
    const Outcome outcome = get(first, access, stop);
    if (outcome != Outcome::kDone) return outcome;
    items.push_back(std::move(first));
    if (take_now(items, end - items.size(), access)) return Outcome::kDone;
  }
  try {
    for (std::size_t batch = kFirst; items.size() < end; batch = std::min(2 * batch, kMax))
      if (!get_waiting(items, std::min(batch, end - items.size()), access)) break;
  } catch (const std::exception&) {  // the caller gets the taken items; its next call may fail
  }
  return Outcome::kDone;
}

// Returns null for this process's own queue, and if the server has not been reached yet.
std::unique_ptr<link::Channel::Batch> QueueClient::batch_of_requests() const {
  if (address_.server == participant_.self) return nullptr;
  const auto awaited = std::make_shared<Completion<std::shared_ptr<link::Channel>>>();
  participant_.run_or_post([awaited, server = address_.server](ParticipantContext& context) {
    context.reach(server, [awaited](const std::shared_ptr<PeerSession>& reached) {
      awaited->set(reached ? std::shared_ptr(reached->peer_memory()->channel) : nullptr);
    });
  });
  if (!awaited->done()) return nullptr;
  const auto channel = awaited->take();
  return channel ? std::make_unique<link::Channel::Batch>(channel) : nullptr;
}

// Sends all requests before it waits for the first reply.
bool QueueClient::get_waiting(std::vector<Sample>& items, std::size_t count, Access access) const {
  items.reserve(items.size() + count);
  EventLoop::Driver driver(participant_.loop, address_.server != participant_.self);
  std::list<QueueGet> gets;
  auto batch = batch_of_requests();
  for (std::size_t i = 0; i < count; ++i)
    gets.emplace_back(participant_, address_, access, QueueGet::Mode{.waits = false}, begin_get());
  batch.reset();
  const auto stop = StopCondition::ignoring_signals(kImmediateReply);
  std::shared_ptr<link::Channel> channel;
  try {
    for (; !gets.empty(); gets.pop_front()) {
      Sample item;
      if (gets.front().take(item, stop, &driver) != Outcome::kDone) break;
      items.push_back(std::move(item));
      if (channel) continue;
      channel = gets.front().server_channel();
      batch = std::make_unique<link::Channel::Batch>(channel);  // for the acceptances that follow
    }
  } catch (const std::exception&) {  // the caller gets the taken items; its next call may fail
  }
  for (QueueGet& get : gets) get.cancel();
  batch.reset();
  if (channel) wait_until_sent(*channel);
  return gets.empty();
}

}  // namespace tensorbus::bus
