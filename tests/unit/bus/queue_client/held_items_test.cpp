// What a bridge needs of a queue's client: items that are held, calls that do not block, and a list
// of the queues.

#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tensorbus/bus/listing.hpp"
#include "tensorbus/bus/queue.hpp"
#include "tensorbus/link/wire/queue_messages.hpp"
#include "tests/unit/bus/test_support.hpp"

namespace tensorbus {
namespace {

using namespace tensorbus::testing;
using link::QueueVerb;

class HeldItems : public ::testing::TestWithParam<bool> {
 protected:
  static Message pattern(std::vector<std::uint64_t>& words, std::uint64_t seed) {
    write_pattern(words, seed);
    return {.tensors = {TensorView::of(words.data(), {static_cast<std::int64_t>(words.size())})}};
  }
  static Outcome put(bus::Queue& queue, std::uint64_t seed,
                     std::chrono::nanoseconds timeout = kLong) {
    std::vector<std::uint64_t> words(64);
    return queue.put(pattern(words, seed), timeout);
  }
  static std::optional<std::uint64_t> get(bus::Queue& queue,
                                          std::chrono::nanoseconds timeout = kLong) {
    bus::Sample sample;
    if (queue.get(sample, timeout) != Outcome::kDone) return std::nullopt;
    return seed_of(sample);
  }
  static Outcome outcome_of(bus::Queue::Pending& pending, bus::Sample& sample) {
    pollfd self{pending.descriptor(), POLLIN, 0};
    while (::poll(&self, 1, static_cast<int>(kLong.count() * 1000)) == 1) {
      const Outcome outcome = pending.take(sample);
      if (outcome != Outcome::kTimedOut || pending.answered()) return outcome;
    }
    ADD_FAILURE() << "no answer";
    return Outcome::kInterrupted;
  }
  static Outcome outcome_of(bus::Queue::Pending&& pending) {
    bus::Sample none;
    return outcome_of(pending, none);
  }
  static std::uint64_t hold(bus::Queue::Pending& pending) {
    bus::Sample sample;
    EXPECT_EQ(outcome_of(pending, sample), Outcome::kDone);
    return seed_of(sample).value_or(0);
  }
  bus::Queue::Pending take_one(std::uint64_t seed) {
    EXPECT_EQ(put(queue, seed), Outcome::kDone);
    bus::Queue::Pending pending = bridge.start_get(true);
    EXPECT_EQ(hold(pending), seed);
    EXPECT_EQ(pending.accept(), Outcome::kDone);
    return pending;
  }
  bool redelivers() const { return GetParam(); }
  std::array<std::uint64_t, 3> state() {
    const QueueStats stats = bridge.stats();
    return {stats.items, stats.unfinished, stats.lost};
  }
  using State = std::array<std::uint64_t, 3>;

  const FreshDomain domain;
  const bus::ParticipantRef server = domain.join();
  const bus::ParticipantRef other = domain.join();
  bus::Queue queue{{.maxsize = 2, .redeliver = GetParam(), .name = "line"}, server};
  bus::Queue bridge = bus::Queue::open("line", kLong, other);
};

INSTANTIATE_TEST_SUITE_P(WithRedeliver, HeldItems, ::testing::Bool());

TEST_P(HeldItems, are_the_queues_until_they_are_accepted) {
  bus::Queue::Pending pending = bridge.start_get(true);
  ASSERT_EQ(put(queue, 5), Outcome::kDone);
  EXPECT_EQ(hold(pending), 5U);
  EXPECT_TRUE(pending.answered());
  EXPECT_EQ(state(), (State{1, 1, 0}));
  EXPECT_EQ(pending.accept(), Outcome::kDone);
  EXPECT_EQ(state(), (State{0, 1, 0}));
  EXPECT_EQ(pending.number() != 0, redelivers());
  EXPECT_EQ(code_of([&] { (void)pending.accept(); }), Code::kInvalidArgument) << "only once";
  pending.cancel();
  EXPECT_EQ(state(), (State{0, 1, 0}));
}

TEST_P(HeldItems, go_back_to_their_place_and_do_not_rest) {
  ASSERT_EQ(put(queue, 1), Outcome::kDone);
  ASSERT_EQ(put(queue, 2), Outcome::kDone);
  bus::Queue::Pending pending = bridge.start_get(true);
  EXPECT_EQ(hold(pending), 1U);
  std::this_thread::sleep_for(150ms);  // longer than an item is offered whose memory does not come
  pending.cancel();
  EXPECT_EQ(code_of([&] { (void)pending.accept(); }), Code::kInvalidArgument);
  EXPECT_EQ(bridge.stats().items, 2U);  // the server has read the refusal
  EXPECT_EQ(get(queue), 1U);
  EXPECT_EQ(get(queue), 2U);
}

TEST_P(HeldItems, are_nothing_that_task_done_knows) {
  const bus::Queue::Pending pending = take_one(1);
  EXPECT_EQ(code_of([&] { bridge.task_done(); }), Code::kInvalidArgument);
  bridge.call(QueueVerb::kTaskDone, pending.number());
  EXPECT_EQ(state(), (State{0, 0, 0}));
  EXPECT_EQ(code_of([&] { bridge.call(QueueVerb::kTaskDone, pending.number()); }),
            Code::kInvalidArgument);
}

TEST_P(HeldItems, that_are_given_back_are_lost_or_come_again) {
  const bus::Queue::Pending first = take_one(1);
  const bus::Queue::Pending second = take_one(2);
  EXPECT_EQ(outcome_of(bridge.start_call(QueueVerb::kGiveBack, second.number())), Outcome::kDone);
  EXPECT_EQ(outcome_of(bridge.start_call(QueueVerb::kGiveBack, first.number())), Outcome::kDone);
  if (redelivers()) {
    EXPECT_EQ(state(), (State{2, 2, 0}));
    EXPECT_EQ(get(queue), 1U);
    EXPECT_EQ(get(queue), 2U);
  } else {
    EXPECT_EQ(state(), (State{0, 0, 2}));
  }
}

TEST_P(HeldItems, that_are_spoilt_are_lost) {
  ASSERT_EQ(put(queue, 1), Outcome::kDone);
  bus::Queue::Pending pending = bridge.start_get(true);
  EXPECT_EQ(code_of([&] { pending.spoil(); }), Code::kInvalidArgument) << "not read yet";
  EXPECT_EQ(hold(pending), 1U);
  pending.spoil();
  EXPECT_EQ(code_of([&] { pending.spoil(); }), Code::kInvalidArgument);
  EXPECT_EQ(code_of([&] { (void)pending.accept(); }), Code::kInvalidArgument);
  EXPECT_EQ(state(), (State{0, 0, 1}));
}

TEST_P(HeldItems, of_which_there_is_none_are_not_waited_for) {
  EXPECT_EQ(outcome_of(bridge.start_get(true, false)), Outcome::kTimedOut);
}

TEST_P(HeldItems, leave_the_queue_to_a_client_that_does_not_wait_for_room) {
  std::vector<std::uint64_t> words(8);
  EXPECT_EQ(outcome_of(bridge.start_put(pattern(words, 1), false)), Outcome::kDone);
  EXPECT_EQ(outcome_of(bridge.start_put(pattern(words, 2), false)), Outcome::kDone);
  EXPECT_EQ(outcome_of(bridge.start_put(pattern(words, 3), false)), Outcome::kTimedOut);
  bus::Queue::Pending waiting = bridge.start_put(pattern(words, 4));
  waiting.request_cancel();
  EXPECT_EQ(outcome_of(std::move(waiting)), Outcome::kTimedOut) << "with an answer";
  bus::Queue::Pending put_by_now = bridge.start_put(pattern(words, 5));
  EXPECT_EQ(get(queue), 1U);
  EXPECT_EQ(outcome_of(std::move(put_by_now)), Outcome::kDone);
}

TEST_P(HeldItems, and_calls_have_answers_with_numbers) {
  ASSERT_EQ(put(queue, 1), Outcome::kDone);
  bus::Queue::Pending state = bridge.start_call(QueueVerb::kState);
  bus::Sample none;
  EXPECT_EQ(outcome_of(state, none), Outcome::kDone);
  EXPECT_EQ(state.values()[0], 1U);
  EXPECT_EQ(state.values()[1], 1U);
  bus::Queue::Pending join = bridge.start_call(QueueVerb::kJoin);
  EXPECT_EQ(get(queue), 1U);
  queue.task_done();
  EXPECT_EQ(outcome_of(join, none), Outcome::kDone);
  EXPECT_EQ(outcome_of(bridge.start_call(QueueVerb::kShutDown)), Outcome::kDone);
  EXPECT_EQ(outcome_of(bridge.start_get(true)), Outcome::kShutDown);
  EXPECT_EQ(outcome_of(bridge.start_call(QueueVerb::kClose)), Outcome::kDone);
  EXPECT_EQ(outcome_of(bridge.start_call(QueueVerb::kState)), Outcome::kClosed);
}

TEST_P(HeldItems, that_a_dead_client_had_go_back_or_are_lost) {
  {
    const bus::ParticipantRef third = domain.join();
    bus::Queue dying = bus::Queue::open("line", kLong, third);
    ASSERT_EQ(put(queue, 1), Outcome::kDone);
    ASSERT_EQ(put(queue, 2), Outcome::kDone);
    bus::Queue::Pending held = dying.start_get(true);
    EXPECT_EQ(hold(held), 1U);
    bus::Queue::Pending accepted = dying.start_get(true);
    EXPECT_EQ(hold(accepted), 2U);
    EXPECT_EQ(accepted.accept(), Outcome::kDone);
  }
  EXPECT_EQ(get(queue), 1U);
  if (redelivers()) {
    EXPECT_EQ(get(queue), 2U);
  }
  EXPECT_TRUE(eventually([&] { return queue.stats().lost == (redelivers() ? 0U : 1U); }));
}

TEST(ListedQueues, are_those_with_names_whose_hosts_live) {
  const FreshDomain domain;
  const bus::ParticipantRef server = domain.join();
  const bus::Queue named({.name = "a line"}, server);
  const bus::Queue service({.name = "service:x"}, server, {"robot", "there"});
  const bus::Queue unnamed({}, server);
  {
    const bus::ParticipantRef gone = domain.join();
    const bus::Queue closed({.name = "closed"}, gone);
  }
  auto found = bus::list_queues(domain.join());
  std::ranges::sort(found, {}, &bus::QueueInfo::name);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].name, "a line");
  EXPECT_EQ(found[1].name, "service:x");
  for (const bus::QueueInfo& info : found) {
    EXPECT_EQ(info.pid, static_cast<std::uint32_t>(::getpid()));
    EXPECT_EQ(info.participant, server->id());
    EXPECT_EQ(info.machine, &info == &found[0] ? "" : "robot");
    EXPECT_EQ(info.origin, &info == &found[0] ? "" : "there");
    EXPECT_EQ(bus::Queue::open(info.address, kLong, server).options().name, "");
  }
}

}  // namespace
}  // namespace tensorbus
