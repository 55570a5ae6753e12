// Coroutines in an executor.

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include "support.hpp"

#if defined(__cpp_impl_coroutine)
namespace tensorbus {
namespace {

using namespace tensorbus::testing;

class Coroutines : public ::testing::Test {
 protected:
  Subscriber subscriber_of(const std::string& topic, SubscriberOptions options = {}) const {
    options.depth = 64;
    Subscriber subscriber(topic, options, participant);
    EXPECT_EQ(subscriber.wait_for_publishers(1, kLong), Outcome::kDone);
    return subscriber;
  }
  static void publish(Publisher& publisher, std::int64_t number) {
    publisher.publish(Value(number), {});
  }
  void run_until(const std::function<bool()>& holds) {
    while (!holds()) (void)executor.poll_once(kLong);
  }

  const FreshDomain domain;
  const Participant participant = domain.join();
  Publisher one{"one", {}, participant};
  Publisher two{"two", {}, participant};
  Executor executor;
  std::vector<std::int64_t> heard;
};

std::int64_t number_of(const Sample& sample) { return sample.fields().as<std::int64_t>(); }

// Hears samples until the stream ends; then -1.
Task hear(Executor& executor, Subscriber subscriber, std::vector<std::int64_t>& heard) {
  while (const auto sample = co_await executor.next(subscriber))
    heard.push_back(number_of(*sample));
  heard.push_back(-1);
}

// One sample of each, in turns.
Task alternate(Executor& executor, Subscriber first, Subscriber second,
               std::vector<std::int64_t>& heard) {
  while (true) {
    for (Subscriber* each : {&first, &second}) {
      const auto sample = co_await executor.next(*each);
      if (!sample) co_return;
      heard.push_back(number_of(*sample));
    }
  }
}

TEST_F(Coroutines, hear_samples_until_the_stream_ends) {
  executor.spawn(hear(executor, subscriber_of("one", {.end_of_stream = true}), heard));
  for (std::int64_t i = 0; i < 40; ++i) publish(one, i);
  run_until([&] { return heard.size() == 40; });
  EXPECT_EQ(heard.back(), 39);
  one.close();
  run_until([&] { return heard.size() == 41; });
  EXPECT_EQ(heard.back(), -1);
  EXPECT_EQ(executor.poll_once(1ms), 0U);
}

TEST_F(Coroutines, wait_for_one_topic_and_then_another) {
  executor.spawn(alternate(executor, subscriber_of("one"), subscriber_of("two"), heard));
  publish(one, 1);
  publish(one, 2);
  run_until([&] { return heard.size() == 1; });
  EXPECT_EQ(executor.poll_once(1ms), 0U) << "the second of topic one is not its turn";
  publish(two, 10);
  publish(two, 20);
  run_until([&] { return heard.size() == 4; });
  EXPECT_EQ(heard, (std::vector<std::int64_t>{1, 10, 2, 20}));
}

TEST_F(Coroutines, run_side_by_side_with_callbacks) {
  executor.spawn(hear(executor, subscriber_of("one"), heard));
  std::int64_t called = 0;
  executor.on_sample(subscriber_of("two"),
                     [&](const Sample& sample) { called = number_of(sample); });
  publish(one, 1);
  publish(two, 2);
  run_until([&] { return called == 2 && heard.size() == 1; });
}

Task work(Executor& executor, Queue& jobs, std::vector<std::int64_t>& heard) {
  while (const auto job = co_await executor.next(jobs)) {
    heard.push_back(number_of(*job));
    jobs.task_done();
  }
  heard.push_back(-1);
}

TEST_F(Coroutines, share_the_items_of_a_queue) {
  Queue jobs({}, participant);
  for (int i = 0; i < 2; ++i) executor.spawn(work(executor, jobs, heard));
  for (std::int64_t i = 0; i < 10; ++i) {
    const std::vector<std::byte> fields = Value(i).encode();
    ASSERT_EQ(jobs.put({.fields = fields}), Outcome::kDone);
  }
  run_until([&] { return heard.size() == 10; });
  jobs.shutdown();
  run_until([&] { return heard.size() == 12; });
  EXPECT_EQ(jobs.stats().unfinished, 0U);
}

TEST_F(Coroutines, that_are_removed_leave_the_item_in_the_queue) {
  Queue jobs({}, participant);
  const Executor::Token token = executor.spawn(work(executor, jobs, heard));
  EXPECT_TRUE(executor.remove(token));
  EXPECT_FALSE(executor.remove(token));
  const std::vector<std::byte> fields = Value(std::int64_t{7}).encode();
  ASSERT_EQ(jobs.put({.fields = fields}), Outcome::kDone);
  for (const Sample& job : jobs) {
    EXPECT_EQ(number_of(job), 7);
    break;
  }
  EXPECT_TRUE(heard.empty());
}

Task keep(Executor& executor, Subscriber subscriber, std::shared_ptr<int>) {
  while (const auto sample = co_await executor.next(subscriber)) {
  }
}

TEST_F(Coroutines, and_their_objects_end_when_they_are_removed_and_with_the_executor) {
  const auto object = std::make_shared<int>(1);
  {
    Executor other;
    const auto token = other.spawn(keep(other, subscriber_of("one"), object));
    other.spawn(keep(other, subscriber_of("one"), object));
    EXPECT_EQ(object.use_count(), 3);
    EXPECT_TRUE(other.remove(token));
    EXPECT_EQ(object.use_count(), 2);
  }
  EXPECT_EQ(object.use_count(), 1);
  {
    const Task never_run = keep(executor, subscriber_of("one"), object);
    EXPECT_EQ(object.use_count(), 2);
  }
  EXPECT_EQ(object.use_count(), 1);
}

Task remove_itself(Executor& executor, Subscriber subscriber, Executor::Token& token,
                   std::shared_ptr<int>) {
  while (const auto sample = co_await executor.next(subscriber)) {
    EXPECT_TRUE(executor.remove(token));
    EXPECT_FALSE(executor.remove(token));
  }
}

TEST_F(Coroutines, may_remove_themselves) {
  const auto object = std::make_shared<int>(1);
  Executor::Token token{};
  token = executor.spawn(remove_itself(executor, subscriber_of("one"), token, object));
  publish(one, 1);
  run_until([&] { return object.use_count() == 1; });
  EXPECT_FALSE(executor.remove(token));
}

Task stop_after(Executor& executor, Subscriber subscriber, std::vector<std::int64_t>& heard) {
  while (const auto sample = co_await executor.next(subscriber)) {
    heard.push_back(number_of(*sample));
    executor.stop();
  }
}

TEST_F(Coroutines, stay_at_their_wait_when_the_executor_is_stopped) {
  executor.spawn(stop_after(executor, subscriber_of("one"), heard));
  publish(one, 1);
  executor.run();
  publish(one, 2);
  EXPECT_EQ(heard, std::vector<std::int64_t>{1});
  executor.run();
  EXPECT_EQ(heard, (std::vector<std::int64_t>{1, 2}));
}

Task fail(Executor& executor, Subscriber subscriber, bool at_once, std::shared_ptr<int>) {
  if (at_once) throw std::runtime_error("at once");
  (void)co_await executor.next(subscriber);
  throw std::runtime_error("later");
}

TEST_F(Coroutines, end_with_what_they_throw) {
  const auto object = std::make_shared<int>(1);
  EXPECT_THROW(executor.spawn(fail(executor, subscriber_of("one"), true, object)),
               std::runtime_error);
  EXPECT_EQ(object.use_count(), 1);
  executor.spawn(fail(executor, subscriber_of("one"), false, object));
  publish(one, 1);
  EXPECT_THROW(executor.run(), std::runtime_error);
  EXPECT_EQ(object.use_count(), 1);
  EXPECT_EQ(executor.poll_once(1ms), 0U) << "nothing is left of it";
}

// What each wait throws.
Task catch_errors(Executor& waits_in, Subscriber& subscriber, std::vector<Code>& caught) {
  std::vector<Sample> kept;
  while (caught.empty()) {
    try {
      auto sample = co_await waits_in.next(subscriber);
      if (!sample) co_return;
      kept.push_back(std::move(*sample));
    } catch (const Error& error) {
      caught.push_back(error.code());
    }
  }
}

TEST_F(Coroutines, catch_the_errors_of_their_waits) {
  std::vector<Code> caught;
  Subscriber small = subscriber_of("one", {.max_held = 1});
  executor.spawn(catch_errors(executor, small, caught));
  for (int i = 0; i < 2; ++i) one.publish(filled_loan(one, 1));
  run_until([&] { return !caught.empty(); });
  EXPECT_EQ(caught, std::vector<Code>{Code::kInvalidArgument}) << "max_held";

  caught.clear();
  Executor other;
  Subscriber subscriber = subscriber_of("one");
  executor.spawn(catch_errors(other, subscriber, caught));
  EXPECT_EQ(caught, std::vector<Code>{Code::kInvalidArgument}) << "of another executor";

  caught.clear();
  executor.spawn(catch_errors(executor, subscriber, caught));
  EXPECT_TRUE(caught.empty());
  executor.spawn(catch_errors(executor, subscriber, caught));
  EXPECT_EQ(caught, std::vector<Code>{Code::kSystem}) << "two wait for one subscriber";
}

TEST_F(Coroutines, may_start_others) {
  const auto start = [](Executor& in, Subscriber subscriber, Subscriber other,
                        std::vector<std::int64_t>& into) -> Task {
    (void)co_await in.next(subscriber);
    in.spawn(hear(in, std::move(other), into));
  };
  executor.spawn(start(executor, subscriber_of("one"), subscriber_of("two"), heard));
  publish(one, 1);
  publish(two, 5);
  run_until([&] { return !heard.empty(); });
  EXPECT_EQ(heard, std::vector<std::int64_t>{5});
}

}  // namespace
}  // namespace tensorbus
#endif
