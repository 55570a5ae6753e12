// Mirrors of queues of other machines: this test is their bridge and their home.

#include "tensorbus/bus/mirror_queue.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <deque>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tensorbus/bus/domain/domain.hpp"
#include "tensorbus/bus/listing.hpp"
#include "tensorbus/bus/queue.hpp"
#include "tensorbus/bus/queue_client/queue_markers.hpp"
#include "tests/fakes/fake_peer.hpp"
#include "tests/unit/bus/test_support.hpp"

namespace tensorbus {
namespace {

using namespace tensorbus::testing;
using bus::testing::FakePeer;
using link::QueueVerb;
using Kind = bus::MirrorQueue::Kind;
using Event = bus::MirrorQueue::Event;

const link::MirrorOrigin kHome{"robot", "00112233445566778899aabbccddeeff.7"};

class MirrorQueues : public ::testing::TestWithParam<bool> {
 protected:
  // The next event; demands only if they are asked for.
  Event next(bool with_demands = false) {
    for (const platform::Deadline deadline(kLong); !deadline.passed();) {
      while (!events.empty()) {
        Event event = std::move(events.front());
        events.pop_front();
        if (event.kind == Kind::kDemand) demand = event.value;
        if (with_demands || event.kind != Kind::kDemand) return event;
      }
      pollfd self{mirror.descriptor(), POLLIN, 0};
      (void)::poll(&self, 1, 1000);
      for (Event& event : mirror.take_events()) events.push_back(std::move(event));
    }
    ADD_FAILURE() << "no event";
    return {};
  }
  std::uint64_t next(Kind kind) {
    const Event event = next();
    EXPECT_EQ(event.kind, kind);
    return event.value;
  }
  void await_demand(std::uint64_t wanted) {
    while (demand != wanted) (void)next(true);
  }
  static Message pattern(std::vector<std::uint64_t>& words, std::uint64_t seed) {
    write_pattern(words, seed);
    return {.tensors = {TensorView::of(words.data(), {static_cast<std::int64_t>(words.size())})}};
  }
  void offer(std::uint64_t tag) {
    std::vector<std::uint64_t> words(64);
    mirror.offer(pattern(words, tag), tag);
  }
  static bus::Queue::Pending start_put(bus::Queue& queue, std::uint64_t seed, bool waits = true) {
    std::vector<std::uint64_t> words(64);
    return queue.start_put(pattern(words, seed), waits);
  }
  static Outcome outcome_of(bus::Queue::Pending& pending, bus::Sample& sample) {
    pollfd self{pending.descriptor(), POLLIN, 0};
    while (::poll(&self, 1, 30'000) == 1) {
      const Outcome outcome = pending.take(sample);
      if (outcome != Outcome::kTimedOut || pending.answered()) return outcome;
    }
    ADD_FAILURE() << "no answer";
    return Outcome::kInterrupted;
  }
  static Outcome outcome_of(bus::Queue::Pending& pending) {
    bus::Sample none;
    return outcome_of(pending, none);
  }
  static std::uint64_t item_of(bus::Queue::Pending& pending) {
    bus::Sample sample;
    EXPECT_EQ(outcome_of(pending, sample), Outcome::kDone);
    return seed_of(sample).value_or(0);
  }
  // The local client gets this item, and the home hears that.
  void hand_over(bus::Queue& to, std::uint64_t tag) {
    bus::Queue::Pending get = to.start_get();
    offer(tag);
    EXPECT_EQ(item_of(get), tag);
    Event event = next();
    while (event.kind == Kind::kPassed) event = next();
    EXPECT_EQ(event.kind, Kind::kTaken);
    EXPECT_EQ(event.value, tag);
  }
  // What kDone and kDied say of one item.
  std::uint64_t one(std::uint64_t tag) const { return redelivers() ? tag : 1; }
  bool redelivers() const { return GetParam(); }
  bus::Queue open(const bus::ParticipantRef& by) const {
    return bus::Queue::open("line", kLong, by);
  }

  const FreshDomain domain;
  const bus::ParticipantRef bridge = domain.join();
  bus::ParticipantRef user = domain.join();
  bus::MirrorQueue mirror{
      {.maxsize = 3, .redeliver = GetParam(), .name = "line", .max_bytes = 1 << 20}, kHome, bridge};
  bus::Queue queue = open(user);
  std::deque<Event> events;
  std::uint64_t demand = 0;
};

INSTANTIATE_TEST_SUITE_P(WithRedeliver, MirrorQueues, ::testing::Bool());

TEST_P(MirrorQueues, look_like_their_home) {
  EXPECT_EQ(queue.options().maxsize, 3U);
  EXPECT_EQ(queue.options().redeliver, redelivers());
  EXPECT_EQ(queue.options().max_bytes, 1U << 20);
  EXPECT_FALSE(queue.options().shared);
  const auto found = bus::list_queues(user);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].name, "line");
  EXPECT_EQ(found[0].machine, kHome.machine);
  EXPECT_EQ(found[0].origin, kHome.publisher);
  EXPECT_EQ(code_of([&] { const bus::MirrorQueue second({.name = "line"}, kHome, user); }),
            Code::kInvalidArgument);
  EXPECT_EQ(code_of([&] { const bus::Queue second({.name = "line"}, user); }),
            Code::kInvalidArgument);
  for (const link::MirrorOrigin& bad :
       {link::MirrorOrigin{"", "x"}, {"x", ""}, {std::string(256, 'x'), "x"}})
    EXPECT_EQ(code_of([&] { const bus::MirrorQueue other({.name = "other"}, bad, user); }),
              Code::kInvalidArgument);
}

TEST_P(MirrorQueues, give_each_item_to_one_get_in_the_order_of_tags) {
  bus::Queue::Pending first = queue.start_get();
  await_demand(1);
  bus::Queue::Pending second = queue.start_get();
  await_demand(2);
  offer(5);
  offer(6);
  EXPECT_EQ(item_of(first), 5U);
  EXPECT_EQ(next(Kind::kTaken), 5U);
  EXPECT_EQ(item_of(second), 6U);
  EXPECT_EQ(next(Kind::kTaken), 6U);
  EXPECT_EQ(demand, 0U);
  queue.task_done();
  EXPECT_EQ(next(Kind::kDone), one(5));
  queue.task_done();
  EXPECT_EQ(next(Kind::kDone), one(6));
  EXPECT_EQ(code_of([&] { offer(6); }), Code::kInvalidArgument) << "tags grow";
  EXPECT_TRUE(eventually([&] { return bridge->memory_use().used_bytes == 0; }));
}

TEST_P(MirrorQueues, let_items_that_nobody_waits_for_be_withdrawn) {
  offer(1);
  offer(2);
  EXPECT_EQ(next(true).kind, Kind::kDemand) << "told again";
  EXPECT_EQ(mirror.surplus(), (std::vector<std::uint64_t>{2, 1}));
  EXPECT_TRUE(mirror.withdraw(2));
  EXPECT_FALSE(mirror.withdraw(2));
  EXPECT_FALSE(mirror.withdraw(7));
  bus::Queue::Pending get = queue.start_get();
  EXPECT_EQ(item_of(get), 1U);
  EXPECT_FALSE(mirror.withdraw(1));
  EXPECT_EQ(mirror.surplus(), std::vector<std::uint64_t>());
}

TEST_P(MirrorQueues, tell_when_an_offered_item_waits_for_nobody_again) {
  bus::Queue::Pending get = queue.start_get(true);
  await_demand(1);
  offer(1);
  EXPECT_EQ(item_of(get), 1U);
  await_demand(0);
  EXPECT_EQ(mirror.surplus(), std::vector<std::uint64_t>()) << "it is offered";
  get.cancel();
  EXPECT_EQ(next(true).kind, Kind::kDemand);
  EXPECT_EQ(mirror.surplus(), std::vector<std::uint64_t>{1});
}

TEST_P(MirrorQueues, ask_their_home_for_a_get_that_does_not_wait) {
  bus::Queue::Pending empty = queue.start_get(false, false);
  const Event poll = next();
  EXPECT_EQ(poll.kind, Kind::kPoll);
  EXPECT_EQ(demand, 0U);
  mirror.answer(poll.value, Outcome::kTimedOut);
  EXPECT_EQ(outcome_of(empty), Outcome::kTimedOut);
  bus::Queue::Pending full = queue.start_get(false, false);
  const std::uint64_t id = next(Kind::kPoll);
  offer(4);
  mirror.answer(id, Outcome::kDone);
  EXPECT_EQ(item_of(full), 4U);
  EXPECT_EQ(next(Kind::kTaken), 4U);
  std::thread blocking([&] {
    bus::Sample sample;
    EXPECT_EQ(queue.get(sample, 0s), Outcome::kTimedOut);
  });
  if (!redelivers()) {
    EXPECT_EQ(next(Kind::kPassed), 1U);
  }
  mirror.answer(next(Kind::kPoll), Outcome::kTimedOut);
  blocking.join();
}

TEST_P(MirrorQueues, relay_puts_and_their_answers) {
  for (const Outcome outcome : {Outcome::kDone, Outcome::kTimedOut, Outcome::kShutDown}) {
    bus::Queue::Pending put = start_put(queue, 7, outcome != Outcome::kTimedOut);
    const Event event = next();
    EXPECT_EQ(event.kind, Kind::kPut);
    EXPECT_EQ(event.waits, outcome != Outcome::kTimedOut);
    EXPECT_EQ(seed_of(event.item), 7U);
    mirror.answer(event.value, outcome);
    mirror.answer(event.value, Outcome::kDone);  // once more: nothing
    EXPECT_EQ(outcome_of(put), outcome);
  }
  bus::Queue::Pending put = start_put(queue, 8);
  mirror.deny(next(Kind::kPut), Error(Code::kInvalidArgument, "too large"));
  EXPECT_EQ(code_of([&] { (void)outcome_of(put); }), Code::kInvalidArgument);
  EXPECT_TRUE(eventually([&] { return user->memory_use().used_bytes == 0; }));
}

TEST_P(MirrorQueues, relay_calls_with_their_numbers) {
  bus::Queue::Pending state = queue.start_call(QueueVerb::kState);
  Event event = next();
  EXPECT_EQ(event.kind, Kind::kCall);
  EXPECT_EQ(event.verb, QueueVerb::kState);
  mirror.answer(event.value, Outcome::kDone, {1, 2, 3, 4});
  EXPECT_EQ(outcome_of(state), Outcome::kDone);
  EXPECT_EQ(state.values(), (bus::MirrorQueue::Values{1, 2, 3, 4}));
  bus::Queue::Pending shutdown = queue.start_call(QueueVerb::kShutDown, 1);
  event = next();
  EXPECT_EQ(event.verb, QueueVerb::kShutDown);
  EXPECT_EQ(event.number, 1U);
  mirror.answer(event.value, Outcome::kDone, {5, 1, 1, 0});
  EXPECT_EQ(outcome_of(shutdown), Outcome::kDone);
  EXPECT_EQ(shutdown.values(), (bus::MirrorQueue::Values{5, 1, 0, 0}))
      << "this client asked for none";
  bus::Queue::Pending join = queue.start_call(QueueVerb::kJoin);
  const std::uint64_t id = next(Kind::kCall);
  join.request_cancel();
  EXPECT_EQ(next(Kind::kCancel), id);
  mirror.answer(id, Outcome::kTimedOut);
  EXPECT_EQ(outcome_of(join), Outcome::kTimedOut);
}

TEST_P(MirrorQueues, tell_once_of_a_put_that_was_given_up) {
  std::optional<bus::Queue::Pending> put = start_put(queue, 7);
  const std::uint64_t id = next(Kind::kPut);
  put->request_cancel();
  EXPECT_EQ(next(Kind::kCancel), id);
  put.reset();  // cancels once more
  bus::Queue::Pending join = queue.start_call(QueueVerb::kJoin);
  const std::uint64_t other = next(Kind::kCall);
  mirror.answer(id, Outcome::kDone);
  mirror.answer(other, Outcome::kDone);
  EXPECT_EQ(outcome_of(join), Outcome::kDone);
}

TEST_P(MirrorQueues, tell_what_a_dead_client_waited_for_and_go_on) {
  FakePeer peer(bus::Domain(domain.path()).connect(bridge->id()).socket);
  peer.say_hello();
  ASSERT_EQ(peer.next(), link::ControlType::kHello);
  const link::QueueName name = bus::parse_queue_address(mirror.address()).queue;
  constexpr auto kJoin = static_cast<std::uint32_t>(QueueVerb::kJoin);
  peer.channel.send(link::QueueCall{1, name, kJoin, 0});
  peer.channel.send(link::QueueCall{1, name, kJoin, 0});  // the same number once more
  const std::uint64_t first = next(Kind::kCall);
  const std::uint64_t second = next(Kind::kCall);
  peer.channel.send(link::Cancel{1, 0});
  EXPECT_EQ(next(Kind::kCancel), first);
  for (const std::uint32_t verb : {8U, 77U, 0xffffffffU}) {
    peer.channel.send(link::QueueCall{verb, name, verb, 0});
    ASSERT_EQ(peer.next(), link::ControlType::kDenied);
  }
  for (const auto verb : {QueueVerb::kTaskDone, QueueVerb::kGiveBack}) {
    peer.channel.send(link::QueueCall{2, name, static_cast<std::uint32_t>(verb), 1});
    ASSERT_EQ(peer.next(), link::ControlType::kDenied) << "it has nothing in hand";
  }
  peer.channel.send(link::Put{3, name, 0, {0, 1, 5, memory::SegmentId::none(), 0, "short", 0}});
  ASSERT_EQ(peer.next(), link::ControlType::kReturn);
  ASSERT_EQ(peer.next(), link::ControlType::kDenied);
  peer.channel.send(link::Take{9, name, 0});
  peer.channel.send(link::Get{4, name, link::Get::kWait});
  await_demand(1);
  peer.channel.send(link::Get{4, name, 0});
  const std::uint64_t poll = next(Kind::kPoll);
  ::shutdown(peer.channel.fd(), SHUT_RDWR);
  EXPECT_EQ(next(Kind::kCancel), second) << "and no second one of the first";
  await_demand(0);
  for (const std::uint64_t id : {first, second, poll}) mirror.answer(id, Outcome::kDone);
  hand_over(queue, 1);
}

TEST_P(MirrorQueues, tell_what_a_dead_client_had_and_give_it_to_nobody) {
  {
    const bus::ParticipantRef dying = domain.join();
    bus::Queue its = open(dying);
    hand_over(its, 1);
    hand_over(its, 2);
  }
  if (redelivers()) {
    EXPECT_EQ(next(Kind::kDied), 1U);
    EXPECT_EQ(next(Kind::kDied), 2U);
  } else {
    EXPECT_EQ(next(Kind::kDied), 1U) << "one item";
    EXPECT_EQ(next(Kind::kDone), 1U) << "which it was finished with";
  }
  EXPECT_EQ(mirror.surplus(), std::vector<std::uint64_t>());
}

TEST_P(MirrorQueues, give_what_a_dead_client_was_offered_to_another) {
  bus::Queue::Pending get = queue.start_get();
  {
    const bus::ParticipantRef dying = domain.join();
    bus::Queue its = open(dying);
    bus::Queue::Pending held = its.start_get(true);
    await_demand(2);
    offer(1);
    offer(2);
    EXPECT_EQ(item_of(get), 1U);
    EXPECT_EQ(item_of(held), 2U);
  }
  get = queue.start_get();
  EXPECT_EQ(item_of(get), 2U);
}

TEST_P(MirrorQueues, end_their_gets_when_nothing_is_left_here) {
  hand_over(queue, 1);
  const bus::ParticipantRef third = domain.join();
  bus::Queue other = open(third);
  bus::Queue::Pending get = other.start_get();
  await_demand(1);
  mirror.end_gets();
  if (redelivers()) {
    // The event loop has done that: a death that it handles first would be among "all deaths".
    EXPECT_EQ(mirror.surplus(), std::vector<std::uint64_t>());
    {
      const bus::Queue dropped = std::move(queue);
    }
    user = domain.join();  // its client is gone: the item may come again
    EXPECT_EQ(next(Kind::kDied), 1U);
    EXPECT_EQ(next(true).kind, Kind::kDemand);
    EXPECT_EQ(demand, 1U);
    mirror.end_gets(0);
    EXPECT_EQ(mirror.surplus(), std::vector<std::uint64_t>());  // the event loop has done that
    bus::Sample none;
    EXPECT_EQ(get.take(none), Outcome::kTimedOut) << "the home has not heard of that death";
    EXPECT_FALSE(get.answered());
    mirror.end_gets(1);
  }
  EXPECT_EQ(outcome_of(get), Outcome::kShutDown);
  bus::Queue::Pending late = other.start_get(false, false);
  EXPECT_EQ(outcome_of(late), Outcome::kShutDown);
}

TEST_P(MirrorQueues, tell_those_who_wait_that_they_are_closed) {
  bus::Queue::Pending get = queue.start_get();
  bus::Queue::Pending put = start_put(queue, 1);
  bus::Queue::Pending join = queue.start_call(QueueVerb::kJoin);
  (void)next(Kind::kPut);
  (void)next(Kind::kCall);
  bus::Queue::Pending poll = queue.start_get(false, false);
  (void)next(Kind::kPoll);
  mirror.close();
  for (bus::Queue::Pending* pending : {&get, &put, &join, &poll})
    EXPECT_EQ(outcome_of(*pending), Outcome::kClosed);
  offer(1);
  mirror.end_gets();
  EXPECT_FALSE(mirror.withdraw(1));
  EXPECT_TRUE(bus::list_queues(user).empty());
  const bus::Queue again({.name = "line"}, user);
}

TEST_P(MirrorQueues, may_be_closed_by_two_threads) {
  std::thread other([this] { mirror.close(); });
  mirror.close();
  other.join();
  EXPECT_TRUE(bus::list_queues(user).empty());
}

TEST_P(MirrorQueues, leave_puts_of_the_same_process_to_their_home_too) {
  bus::Queue here = open(bridge);
  bus::Queue::Pending put = start_put(here, 9);
  const Event event = next();
  EXPECT_EQ(seed_of(event.item), 9U);
  mirror.answer(event.value, Outcome::kDone);
  EXPECT_EQ(outcome_of(put), Outcome::kDone);
}

}  // namespace
}  // namespace tensorbus
