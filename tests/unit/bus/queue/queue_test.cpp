// Queues: every item to exactly one, whoever comes, goes, waits and gives up.

#include "tensorbus/bus/queue.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <set>
#include <thread>

#include "tensorbus/bus/share.hpp"
#include "tests/unit/bus/test_support.hpp"

namespace tensorbus {
namespace {

using namespace tensorbus::testing;

class Queues : public ::testing::Test {
 protected:
  static Outcome put(bus::Queue& queue, std::uint64_t seed,
                     std::chrono::nanoseconds timeout = kLong) {
    std::vector<std::uint64_t> words(64);
    write_pattern(words, seed);
    return queue.put({.tensors = {TensorView::of(words.data(), {64})}}, timeout);
  }
  static std::optional<std::uint64_t> get(bus::Queue& queue,
                                          std::chrono::nanoseconds timeout = kLong) {
    bus::Sample sample;
    if (queue.get(sample, timeout) != Outcome::kDone) return std::nullopt;
    return seed_of(sample);
  }
  bus::Queue open(const bus::Queue& queue, const bus::ParticipantRef& by) {
    return bus::Queue::open(queue.address(), kLong, by);
  }
  bool unused(const bus::ParticipantRef& participant) {
    return eventually([&] { return participant->memory_use().used_bytes == 0; });
  }

  const FreshDomain domain;
  bus::ParticipantRef server = domain.join();
  bus::ParticipantRef producer = domain.join();
  bus::ParticipantRef consumer = domain.join();
};

TEST_F(Queues, hand_items_on_in_order_also_at_their_server) {
  bus::Queue queue({}, server);
  bus::Queue in = open(queue, producer);
  bus::Queue out = open(queue, consumer);
  for (std::uint64_t seed = 0; seed < 10; ++seed) ASSERT_EQ(put(in, seed), Outcome::kDone);
  EXPECT_EQ(queue.stats().items, 10U);
  for (std::uint64_t seed = 0; seed < 5; ++seed) EXPECT_EQ(get(out), seed);
  for (std::uint64_t seed = 5; seed < 10; ++seed) EXPECT_EQ(get(queue), seed);
  EXPECT_EQ(get(out, 0s), std::nullopt);
  for (const bus::ParticipantRef* each : {&server, &producer, &consumer})
    EXPECT_TRUE(unused(*each));
}

TEST_F(Queues, give_tensors_by_reference_straight_from_who_put_them) {
  bus::Queue queue({}, server);
  bus::Queue in = open(queue, producer);
  bus::Queue out = open(queue, consumer);
  ASSERT_EQ(put(in, 1), Outcome::kDone);
  bus::Sample sample;
  ASSERT_EQ(out.get(sample, kLong), Outcome::kDone);
  EXPECT_TRUE(unused(server)) << "the queue is not needed any more";
  EXPECT_GT(producer->memory_use().used_bytes, 0U);
  {
    const bus::Queue dropped = std::move(queue);
  }
  server = domain.join();
  EXPECT_EQ(seed_of(sample), 1U);
  sample = bus::Sample();
  EXPECT_TRUE(unused(producer));
}

TEST_F(Queues, keep_items_of_producers_that_are_gone) {
  bus::Queue queue({}, server);
  {
    bus::Queue in = open(queue, producer);
    for (std::uint64_t seed = 0; seed < 3; ++seed) ASSERT_EQ(put(in, seed), Outcome::kDone);
  }
  producer = domain.join();
  bus::Queue out = open(queue, consumer);
  bus::Queue far = open(queue, producer);
  EXPECT_EQ(get(out), 0U);
  EXPECT_EQ(get(queue), 1U);
  EXPECT_EQ(get(far), 2U);
}

TEST_F(Queues, bound_what_waits) {
  bus::Queue queue({.maxsize = 2}, server);
  bus::Queue in = open(queue, producer);
  EXPECT_EQ(in.options().maxsize, 2U);
  EXPECT_EQ(put(in, 0), Outcome::kDone);
  EXPECT_EQ(put(in, 1), Outcome::kDone);
  EXPECT_EQ(put(in, 9, 0s), Outcome::kTimedOut);
  EXPECT_EQ(put(in, 9, 5ms), Outcome::kTimedOut);
  std::thread waiting([&] { EXPECT_EQ(put(in, 2), Outcome::kDone); });
  EXPECT_EQ(get(queue), 0U);
  waiting.join();
  EXPECT_EQ(get(queue), 1U);
  EXPECT_EQ(get(queue), 2U);
  EXPECT_EQ(get(queue, 0s), std::nullopt);
  EXPECT_TRUE(unused(producer)) << "what did not fit is gone";
}

TEST_F(Queues, wait_for_items_and_lose_none_to_those_who_give_up) {
  bus::Queue queue({}, server);
  bus::Queue out = open(queue, consumer);
  bus::Queue in = open(queue, producer);
  std::atomic<std::uint64_t> got{0};
  constexpr std::uint64_t kItems = 300;
  std::thread impatient([&] {
    while (got < kItems)
      if (get(out, 50us)) ++got;
  });
  std::thread patient([&] {
    while (got < kItems)
      if (get(queue, 5ms)) ++got;
  });
  for (std::uint64_t seed = 0; seed < kItems; ++seed) ASSERT_EQ(put(in, seed), Outcome::kDone);
  impatient.join();
  patient.join();
  EXPECT_EQ(got, kItems);
  EXPECT_EQ(queue.stats().items, 0U);
  EXPECT_EQ(queue.stats().lost, 0U);
  EXPECT_TRUE(unused(producer));
}

TEST_F(Queues, give_every_item_to_exactly_one) {
  bus::Queue queue({.maxsize = 4}, server);
  constexpr std::uint64_t kEach = 100;
  std::vector<std::thread> threads;
  std::mutex mutex;
  std::multiset<std::uint64_t> seen;
  for (std::uint64_t p = 0; p < 3; ++p)
    threads.emplace_back([&, p] {
      bus::Queue in = open(queue, p == 0 ? server : producer);
      for (std::uint64_t i = 0; i < kEach; ++i) EXPECT_EQ(put(in, p * 1000 + i), Outcome::kDone);
    });
  for (int c = 0; c < 3; ++c)
    threads.emplace_back([&, c] {
      bus::Queue out = open(queue, c == 0 ? server : consumer);
      for (std::uint64_t i = 0; i < kEach; ++i) {
        const auto seed = get(out);
        const std::lock_guard lock(mutex);
        seen.insert(seed.value_or(~0ULL));
      }
    });
  for (std::thread& thread : threads) thread.join();
  std::multiset<std::uint64_t> expected;
  for (std::uint64_t p = 0; p < 3; ++p)
    for (std::uint64_t i = 0; i < kEach; ++i) expected.insert(p * 1000 + i);
  EXPECT_EQ(seen, expected);
}

TEST_F(Queues, end_for_all_when_they_are_closed_or_their_host_is_gone) {
  std::optional<bus::Queue> queue(std::in_place, QueueOptions{.maxsize = 1}, server);
  bus::Queue in = open(*queue, producer);
  bus::Queue out = open(*queue, consumer);
  ASSERT_EQ(put(in, 1), Outcome::kDone);
  std::thread putting([&] { EXPECT_EQ(put(in, 2), Outcome::kClosed); });
  std::thread joining([&] { EXPECT_EQ(out.join(kLong), Outcome::kClosed); });
  const auto address = queue->address();
  queue->close();
  putting.join();
  joining.join();
  bus::Sample sample;
  EXPECT_EQ(out.get(sample, kLong), Outcome::kClosed);
  EXPECT_EQ(put(in, 3), Outcome::kClosed);
  EXPECT_EQ(code_of([&] { (void)bus::Queue::open(address, kLong, consumer); }), Code::kClosed);
  EXPECT_EQ(code_of([&] { (void)out.stats(); }), Code::kClosed);

  queue.emplace(QueueOptions{}, server);
  bus::Queue other = open(*queue, consumer);
  std::thread getting([&] { EXPECT_EQ(other.get(sample, kLong), Outcome::kClosed); });
  queue.reset();
  server = domain.join();
  getting.join();
  EXPECT_TRUE(unused(producer));
}

TEST_F(Queues, that_are_shut_down_are_drained_and_then_tell_everybody) {
  bus::Queue queue({.maxsize = 2}, server);
  bus::Queue in = open(queue, producer);
  bus::Queue out = open(queue, consumer);
  ASSERT_EQ(put(in, 1), Outcome::kDone);
  ASSERT_EQ(put(in, 2), Outcome::kDone);
  Outcome third = Outcome::kDone;
  std::jthread waits([&] { third = put(in, 3); });
  in.shutdown();
  waits.join();
  EXPECT_EQ(third, Outcome::kShutDown);
  EXPECT_EQ(put(in, 4, 0s), Outcome::kShutDown);
  EXPECT_EQ(queue.drain(0s), Outcome::kTimedOut);
  EXPECT_EQ(get(out), 1);
  EXPECT_EQ(get(out), 2);
  EXPECT_EQ(queue.drain(kLong), Outcome::kDone);
  bus::Sample sample;
  EXPECT_EQ(out.get(sample, kLong), Outcome::kShutDown);
  queue.close();
  EXPECT_EQ(out.get(sample, 0s), Outcome::kShutDown);  // it was busy till now
  for (const bus::ParticipantRef* each : {&server, &producer, &consumer})
    EXPECT_TRUE(unused(*each));
}

TEST_F(Queues, that_drop_what_waits_when_they_are_shut_down_lose_nothing_else) {
  bus::Queue queue({.redeliver = true}, server);
  std::optional<bus::Queue> out = open(queue, consumer);
  ASSERT_EQ(put(queue, 1), Outcome::kDone);
  ASSERT_EQ(put(queue, 2), Outcome::kDone);
  EXPECT_EQ(get(*out), 1);
  queue.shutdown(true);
  EXPECT_EQ(queue.stats().unfinished, 1U);
  out->task_done();
  EXPECT_EQ(queue.join(kLong), Outcome::kDone);
}

TEST_F(Queues, have_one_maker_for_each_name) {
  const bus::Queue first({.name = "only"}, server);
  try {
    const bus::Queue second({.name = "only"}, producer);
    ADD_FAILURE() << "there are two";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kInvalidArgument);
    EXPECT_NE(std::string(error.what()).find(std::to_string(::getpid())), std::string::npos);
  }
  const bus::Queue service({.name = "service:x"}, server);
  const bus::Queue another_service({.name = "service:x"}, producer);
}

TEST_F(Queues, count_what_is_done) {
  bus::Queue queue({}, server);
  bus::Queue out = open(queue, consumer);
  EXPECT_EQ(queue.join(kLong), Outcome::kDone);
  ASSERT_EQ(put(queue, 1), Outcome::kDone);
  ASSERT_EQ(put(queue, 2), Outcome::kDone);
  EXPECT_EQ(queue.join(5ms), Outcome::kTimedOut);
  std::thread joining([&] { EXPECT_EQ(queue.join(kLong), Outcome::kDone); });
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(get(out));
    out.task_done();
  }
  joining.join();
  EXPECT_EQ(queue.stats().unfinished, 0U);
  EXPECT_EQ(code_of([&] { out.task_done(); }), Code::kInvalidArgument);
}

TEST_F(Queues, with_redeliver_give_back_what_the_gone_had_in_hand) {
  bus::Queue queue({.redeliver = true}, server);
  for (std::uint64_t seed = 0; seed < 4; ++seed) ASSERT_EQ(put(queue, seed), Outcome::kDone);
  {
    bus::Queue out = open(queue, consumer);
    for (std::uint64_t seed = 0; seed < 3; ++seed) EXPECT_EQ(get(out), seed);
    out.task_done();  // of the first
  }
  consumer = domain.join();
  for (std::uint64_t seed = 1; seed < 4; ++seed) {
    EXPECT_EQ(get(queue), seed);
    queue.task_done();
  }
  EXPECT_EQ(queue.join(kLong), Outcome::kDone);
  EXPECT_EQ(queue.stats().lost, 0U);
}

TEST_F(Queues, without_redeliver_count_as_lost_what_the_gone_had_in_hand) {
  bus::Queue queue({}, server);
  for (std::uint64_t seed = 0; seed < 3; ++seed) ASSERT_EQ(put(queue, seed), Outcome::kDone);
  {
    bus::Queue out = open(queue, consumer);
    for (std::uint64_t seed = 0; seed < 2; ++seed) EXPECT_EQ(get(out), seed);
  }
  consumer = domain.join();
  EXPECT_TRUE(eventually([&] { return queue.stats().lost == 1; }));
  EXPECT_EQ(get(queue), 2U);
  queue.task_done();
  EXPECT_EQ(queue.join(kLong), Outcome::kDone) << "nobody will do what the dead had";
}

TEST_F(Queues, are_found_by_name_also_by_those_who_come_first) {
  std::thread early([&] {
    bus::Queue out = bus::Queue::open("jobs/a b", kLong, consumer);
    EXPECT_EQ(get(out), 5U);
  });
  bus::Queue queue({.name = "jobs/a b"}, server);
  ASSERT_EQ(put(queue, 5), Outcome::kDone);
  early.join();
  EXPECT_EQ(code_of([&] { (void)bus::Queue::open("other", 5ms, consumer); }), Code::kTimeout);
  queue.close();
  EXPECT_EQ(code_of([&] { (void)bus::Queue::open("jobs/a b", 5ms, consumer); }), Code::kTimeout);
}

TEST_F(Queues, of_one_name_are_all_listed_and_each_is_opened_by_its_address) {
  bus::Queue first({.name = "service:both"}, server);
  bus::Queue second({.name = "service:both"}, producer);
  const bus::Queue other({.name = "another"}, server);
  std::set<std::string> found;
  for (const std::string& address : bus::Queue::addresses_of("service:both", consumer))
    found.insert(bus::Queue::open(address, kLong, consumer).address());
  EXPECT_EQ(found, (std::set<std::string>{first.address(), second.address()}));
  second.close();
  EXPECT_EQ(bus::Queue::addresses_of("service:both", consumer).size(), 1U);
}

TEST_F(Queues, tell_participants_when_one_may_have_come) {
  const std::uint64_t before = consumer->domain_changes();
  const bus::Queue queue({.name = "new"}, server);
  EXPECT_TRUE(eventually([&] { return consumer->domain_changes() != before; }));
}

TEST_F(Queues, are_used_by_their_address_before_anybody_was_asked) {
  std::optional<bus::Queue> queue(std::in_place, QueueOptions{}, server);
  const std::string address = queue->address();
  bus::Queue in = bus::Queue::at(address, {}, producer);
  EXPECT_EQ(in.address(), address);
  EXPECT_FALSE(in.made_here());
  ASSERT_EQ(put(in, 1), Outcome::kDone);
  bus::Queue out = bus::Queue::at(address, {}, consumer);
  EXPECT_EQ(get(out), 1U);
  EXPECT_EQ(in.stats().items, 0U);
  queue.reset();
  server = domain.join();
  bus::Queue late = bus::Queue::at(address, {}, producer);
  EXPECT_EQ(put(late, 2), Outcome::kClosed);
  EXPECT_TRUE(unused(producer));
}

TEST_F(Queues, refuse_tensors_of_who_does_not_know_that_they_are_shared) {
  bus::Queue queue({.shared = true}, server);
  bus::Queue in = bus::Queue::at(queue.address(), {}, producer);
  EXPECT_EQ(code_of([&] { (void)put(in, 1); }), Code::kProtocol);
  bus::Queue knowing = bus::Queue::at(queue.address(), {.shared = true}, producer);
  EXPECT_EQ(put(knowing, 2), Outcome::kDone);
  EXPECT_EQ(get(queue), 2U);
  EXPECT_EQ(get(queue, 0s), std::nullopt);
  EXPECT_TRUE(unused(producer));
}

TEST_F(Queues, refuse_addresses_that_were_changed) {
  bus::Queue queue({}, server);
  const std::string address = queue.address();
  for (std::size_t length = 16; length + 16 < address.size(); ++length)
    EXPECT_NE(code_of([&] { (void)bus::Queue::open(address.substr(0, length), kLong, consumer); }),
              std::nullopt);
  std::string changed = address;
  changed.back() = changed.back() == '1' ? '2' : '1';
  EXPECT_EQ(code_of([&] { (void)bus::Queue::open(changed, kLong, consumer); }),
            Code::kInvalidArgument);
  bus::Queue wrong = bus::Queue::at(changed, {}, consumer);
  EXPECT_EQ(code_of([&] { (void)put(wrong, 1); }), Code::kInvalidArgument);
  for (const std::string& text : {std::string(), std::string("jobs"), address + "0 "})
    EXPECT_EQ(code_of([&] { (void)bus::Queue::at(text, {}, consumer); }), Code::kInvalidArgument);
}

TEST_F(Queues, that_are_shared_give_memory_to_be_written) {
  bus::Queue queue({.shared = true}, server);
  bus::Queue in = open(queue, producer);
  bus::Queue out = open(queue, consumer);
  const bus::Loan kept = empty(Layout::contiguous(DType::kUInt64, {64}), true, producer);
  write_pattern(kept.as<std::uint64_t>(), 1);
  for (int i = 0; i < 2; ++i) ASSERT_EQ(in.put({.tensors = {kept.view()}}), Outcome::kDone);
  bus::Sample one;
  bus::Sample other;
  ASSERT_EQ(out.get(one, kLong), Outcome::kDone);
  ASSERT_EQ(out.get(other, kLong), Outcome::kDone);
  EXPECT_EQ(one.tensor().data(), other.tensor().data());
  write_pattern(one.tensor().as_mutable<std::uint64_t>(), 2);
  EXPECT_EQ(seed_of(kept.as<std::uint64_t>()), 2U);
  // And on, by reference.
  ASSERT_EQ(out.put({.tensors = {{one.tensor().data(), one.tensor().layout()}}}), Outcome::kDone);
  ASSERT_EQ(queue.get(other, kLong), Outcome::kDone);
  write_pattern(other.tensor().as_mutable<std::uint64_t>(), 3);
  EXPECT_EQ(seed_of(kept.as<std::uint64_t>()), 3U);
  EXPECT_EQ(consumer->memory_use().used_bytes, 0U);
}

}  // namespace
}  // namespace tensorbus
