// Callbacks.

#include <atomic>
#include <stdexcept>

#include "services.hpp"

namespace tensorbus {
namespace {

using namespace tensorbus::testing;

class Callbacks : public ::testing::Test {
 protected:
  // Of a topic that `publisher_of` publishes on.
  Executor::Token listen(const std::string& topic, Executor::Callback callback) {
    Subscriber subscriber(topic, {.depth = 64}, participant);
    EXPECT_EQ(subscriber.wait_for_publishers(1, kLong), Outcome::kDone);
    return executor.on_sample(std::move(subscriber), std::move(callback));
  }
  static void publish(Publisher& publisher, std::uint64_t first, std::uint64_t count = 1) {
    for (std::uint64_t i = first; i < first + count; ++i)
      publisher.publish(TensorView::of(&i, {1}));
  }
  static std::uint64_t number_of(const Sample& sample) {
    return sample.tensor().as<std::uint64_t>()[0];
  }

  const FreshDomain domain;
  const Participant participant = domain.join();
  Publisher one{"one", {}, participant};
  Publisher two{"two", {}, participant};
  Executor executor;
};

TEST_F(Callbacks, come_for_each_sample_in_order) {
  std::vector<std::uint64_t> heard;
  listen("one", [&](const Sample& sample) { heard.push_back(number_of(sample)); });
  listen("two", [&](Sample sample) { heard.push_back(100 + number_of(sample)); });
  publish(one, 0, 3);
  while (heard.size() < 3) (void)executor.poll_once(kLong);
  EXPECT_EQ(heard, (std::vector<std::uint64_t>{0, 1, 2}));
  publish(two, 5);
  while (heard.size() < 4) (void)executor.poll_once(kLong);
  EXPECT_EQ(heard.back(), 105U);
  while (executor.poll_once(0s) > 0) {
  }
  EXPECT_EQ(executor.poll_once(1ms), 0U);
}

TEST_F(Callbacks, come_for_what_was_there_before) {
  Subscriber subscriber("one", {}, participant);
  ASSERT_EQ(one.wait_for_subscribers(1, kLong), Outcome::kDone);
  publish(one, 7);
  std::uint64_t heard = 0;
  executor.on_sample(std::move(subscriber),
                     [&](const Sample& sample) { heard = number_of(sample); });
  while (heard == 0) (void)executor.poll_once(kLong);
  EXPECT_EQ(heard, 7U);
}

TEST_F(Callbacks, leave_no_topic_waiting_for_long) {
  bool heard = false;
  std::size_t others = 0;
  listen("one", [&](const Sample&) {
    ASSERT_LT(++others, 1000U);
    publish(one, 0);  // there is always more
  });
  listen("two", [&](const Sample&) { heard = true; });
  publish(one, 0);
  publish(two, 0);
  while (!heard) (void)executor.poll_once(kLong);
  EXPECT_LE(others, 64U);
}

TEST_F(Callbacks, run_in_a_thread_until_it_is_stopped) {
  std::atomic<std::uint64_t> heard = 0;
  listen("one", [&](const Sample& sample) { heard = number_of(sample); });
  std::jthread thread([&](std::stop_token stop) { executor.run(stop); });
  publish(one, 3);
  EXPECT_TRUE(eventually([&] { return heard == 3; }));
  thread.request_stop();
  thread.join();
  publish(one, 4);
  EXPECT_EQ(heard, 3U);
}

TEST_F(Callbacks, run_until_one_of_them_stops_it) {
  std::uint64_t heard = 0;
  listen("one", [&](const Sample& sample) {
    heard = number_of(sample);
    executor.stop();
  });
  publish(one, 3);
  executor.run();
  EXPECT_EQ(heard, 3U);
  executor.stop();
  executor.run();  // ends at once, once
}

TEST_F(Callbacks, are_driven_by_a_loop_of_ones_own) {
  std::uint64_t heard = 0;
  listen("one", [&](const Sample& sample) { heard = number_of(sample); });
  while (executor.poll_once(0s) > 0) {
  }
  pollfd polled{executor.descriptor(), POLLIN, 0};
  publish(one, 3);
  while (heard == 0) {
    ASSERT_EQ(::poll(&polled, 1, 30'000), 1);
    (void)executor.poll_once(0s);
  }
  EXPECT_EQ(heard, 3U);
}

TEST_F(Callbacks, that_throw_end_the_call_and_nothing_else) {
  std::vector<std::uint64_t> heard;
  listen("one", [&](const Sample& sample) {
    if (number_of(sample) == 0) throw std::runtime_error("zero");
    heard.push_back(number_of(sample));
  });
  publish(one, 0, 3);
  EXPECT_THROW(executor.run(), std::runtime_error);
  while (heard.size() < 2) (void)executor.poll_once(kLong);
  EXPECT_EQ(heard, (std::vector<std::uint64_t>{1, 2}));
}

TEST_F(Callbacks, may_add_others_and_keep_samples) {
  std::vector<Sample> kept;
  listen("one", [&](Sample sample) {
    kept.push_back(std::move(sample));
    if (kept.size() == 1) listen("two", [&](Sample other) { kept.push_back(std::move(other)); });
  });
  publish(one, 1);
  while (kept.empty()) (void)executor.poll_once(kLong);
  publish(two, 2);
  while (kept.size() < 2) (void)executor.poll_once(kLong);
  EXPECT_EQ(number_of(kept[0]), 1U);
  EXPECT_EQ(number_of(kept[1]), 2U);
}

TEST_F(Callbacks, come_no_more_when_they_were_removed) {
  const Executor::Token token = listen("one", [](const Sample&) { FAIL(); });
  publish(one, 0, 3);
  EXPECT_TRUE(executor.remove(token));
  EXPECT_FALSE(executor.remove(token));
  EXPECT_EQ(executor.poll_once(0s), 0U);
  EXPECT_TRUE(eventually([&] { return one.subscribers() == 0; }));
}

TEST_F(Callbacks, may_remove_themselves) {
  auto alive = std::make_shared<int>(0);
  const std::weak_ptr<int> life = alive;
  Executor::Token token{};
  token = listen("one", [&, alive = std::move(alive)](const Sample&) {
    ++*alive;
    EXPECT_TRUE(executor.remove(token));
    EXPECT_EQ(*alive, 1);  // what it needs is there until it returns
  });
  publish(one, 0, 3);
  std::size_t calls = 0;
  while (calls == 0) calls = executor.poll_once(kLong);
  EXPECT_EQ(calls, 1U);
  EXPECT_TRUE(life.expired());
  EXPECT_EQ(executor.poll_once(0s), 0U);
}

TEST_F(Callbacks, may_remove_others_whose_turn_would_be_next) {
  std::map<std::string, Executor::Token> tokens;
  int heard = 0;
  tokens["one"] = listen("one", [&](const Sample&) { heard += executor.remove(tokens["two"]); });
  tokens["two"] = listen("two", [&](const Sample&) { heard += executor.remove(tokens["one"]); });
  publish(one, 0);
  publish(two, 0);
  while (heard == 0) (void)executor.poll_once(kLong);
  EXPECT_EQ(executor.poll_once(0s), 0U);
  EXPECT_EQ(heard, 1);
}

TEST_F(Callbacks, come_for_requests_beside_samples_until_they_are_removed) {
  std::atomic<std::uint64_t> heard = 0;
  listen("one", [&](const Sample& sample) { heard = number_of(sample); });
  Executor::Token token{};
  token = executor.serve(Service(
      "service",
      [&](Content request) {
        if (request.fields == Value("last")) executor.remove(token);
        return request;
      },
      participant));
  std::jthread thread([&](std::stop_token stop) { executor.run(stop); });
  Client client("service", {.timeout = kLong}, participant);
  EXPECT_EQ(client.call({7}).fields, Value(7));
  publish(one, 3);
  EXPECT_TRUE(eventually([&] { return heard == 3; }));
  EXPECT_EQ(client.call({"last"}).fields, Value("last"));
  EXPECT_TRUE(eventually([&] { return client.wait_for_service(0s) == Outcome::kTimedOut; }));
  publish(one, 4);
  EXPECT_TRUE(eventually([&] { return heard == 4; }));
}

TEST_F(Callbacks, of_a_subscriber_that_was_moved_from_are_refused) {
  Subscriber from("one", {}, participant);
  const Subscriber to = std::move(from);
  EXPECT_EQ(code_of([&] { executor.on_sample(std::move(from), [](const Sample&) {}); }),
            Code::kClosed);
}

TEST_F(Callbacks, of_a_service_that_was_moved_from_are_refused) {
  Service from("service", echo, participant);
  const Service to = std::move(from);
  EXPECT_EQ(code_of([&] { executor.serve(std::move(from)); }), Code::kClosed);
}

}  // namespace
}  // namespace tensorbus
