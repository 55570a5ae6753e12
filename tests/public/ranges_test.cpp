// What is received, as ranges: samples, structs, items of queues, and sets.

#include <algorithm>
#include <array>
#include <atomic>
#include <concepts>
#include <csignal>
#include <ranges>
#include <stdexcept>
#include <stop_token>
#include <thread>

#include "support.hpp"

struct Count {
  std::int64_t value = 0;
};
TENSORBUS_MESSAGE(Count, "test.Count", value)

namespace tensorbus {
namespace {

using namespace tensorbus::testing;

// Single-pass ranges, of values that a loop may refer to or move.
template <typename Range, typename Item>
concept Receives = std::ranges::input_range<Range> && !std::ranges::forward_range<Range> &&
                   std::same_as<std::ranges::range_value_t<Range>, Item> &&
                   std::same_as<std::ranges::range_reference_t<Range>, Item&&>;
static_assert(Receives<Subscriber, Sample>);
static_assert(Receives<decltype(std::declval<Subscriber&>().samples(1s)), Sample>);
static_assert(Receives<Queue, Sample>);
static_assert(Receives<decltype(std::declval<Queue&>().items(1s)), Sample>);
static_assert(Receives<TimeSynchronizer, std::vector<Sample>>);
static_assert(Receives<decltype(messages<Count>(std::declval<Subscriber&>())), Count>);

class Ranges : public ::testing::Test {
 protected:
  // A publisher whose `count` samples, numbered from 0, wait for `subscriber`.
  void publish(std::int64_t count, SubscriberOptions options = {}) {
    subscriber.emplace("topic", options, borrower);
    publisher.emplace("topic", PublisherOptions{.depth = 100}, owner);
    ASSERT_EQ(publisher->wait_for_subscribers(1, kLong), Outcome::kDone);
    ASSERT_EQ(subscriber->wait_for_publishers(1, kLong), Outcome::kDone);
    for (std::int64_t i = 0; i < count; ++i) publisher->publish(Value(i), {});
  }
  static std::int64_t number_of(const Sample& sample) { return sample.fields().as<std::int64_t>(); }
  Queue queue_of(std::int64_t count) const {
    Queue queue({}, owner);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::vector<std::byte> fields = Value(i).encode();
      EXPECT_EQ(queue.put({.fields = fields}), Outcome::kDone);
    }
    return queue;
  }
  template <typename Range>
  static std::vector<std::int64_t> numbers_of(Range&& range) {
    std::vector<std::int64_t> numbers;
    for (const Sample& sample : range) numbers.push_back(number_of(sample));
    return numbers;
  }

  const FreshDomain domain;
  const Participant owner = domain.join();
  const Participant borrower = domain.join();
  std::optional<Publisher> publisher;
  std::optional<Subscriber> subscriber;
};

using Numbers = std::vector<std::int64_t>;

TEST_F(Ranges, of_samples_end_with_the_stream) {
  publish(3, {.end_of_stream = true});
  publisher->close();
  EXPECT_EQ(numbers_of(*subscriber), (Numbers{0, 1, 2}));
  EXPECT_EQ(numbers_of(*subscriber), Numbers{}) << "it has ended";
}

TEST_F(Ranges, of_samples_end_when_the_subscriber_is_closed) {
  publish(1);
  std::jthread closing;
  Numbers numbers;
  for (const Sample& sample : *subscriber) {
    numbers.push_back(number_of(sample));
    closing = std::jthread([&] { subscriber->close(); });
  }
  EXPECT_EQ(numbers, Numbers{0});
}

TEST_F(Ranges, of_samples_end_after_the_timeout) {
  publish(3);
  EXPECT_EQ(numbers_of(subscriber->samples(1ms)), (Numbers{0, 1, 2}));
  publisher->publish(Value(std::int64_t{3}), {});
  EXPECT_EQ(numbers_of(subscriber->samples(1ms)), Numbers{3}) << "another loop goes on";
}

TEST_F(Ranges, of_samples_throw_at_the_timeout_if_the_stream_must_end) {
  publish(1, {.end_of_stream = true});
  EXPECT_EQ(code_of([&] { (void)numbers_of(subscriber->samples(1ms)); }), Code::kTimeout);
  EXPECT_EQ(code_of([&] { (void)subscriber->for_each([](Sample) {}, 1ms); }), Code::kTimeout);
}

TEST_F(Ranges, of_samples_end_when_they_are_stopped) {
  publish(2);
  std::stop_source source;
  Numbers numbers;
  for (const Sample& sample : subscriber->samples(kLong, source.get_token())) {
    numbers.push_back(number_of(sample));
    if (numbers.size() == 2) source.request_stop();
  }
  EXPECT_EQ(numbers, (Numbers{0, 1}));
}

TEST_F(Ranges, go_on_after_signals) {
  publish(0);
  Queue queue = queue_of(0);
  struct sigaction action{}, before{};
  static std::atomic<int> signals{0};
  action.sa_handler = [](int) { ++signals; };
  ASSERT_EQ(::sigaction(SIGUSR1, &action, &before), 0);
  const auto interrupts = [&](auto& range, auto put) {
    signals = 0;
    const pthread_t waiting = ::pthread_self();
    std::jthread other([&, waiting] {
      while (signals < 5) {
        ::pthread_kill(waiting, SIGUSR1);
        std::this_thread::sleep_for(1ms);
      }
      put();
    });
    for (const Sample& sample : range) return number_of(sample);
    return std::int64_t{-1};
  };
  EXPECT_EQ(interrupts(*subscriber, [&] { publisher->publish(Value(std::int64_t{7}), {}); }), 7);
  const std::vector<std::byte> eight = Value(std::int64_t{8}).encode();
  EXPECT_EQ(interrupts(queue, [&] { (void)queue.put({.fields = eight}); }), 8);
  ::sigaction(SIGUSR1, &before, nullptr);
}

TEST_F(Ranges, hold_no_sample_while_they_wait) {
  publish(0);
  publisher->publish(filled_loan(*publisher, 1));
  publisher->publish(filled_loan(*publisher, 2));
  std::size_t seen = 0;
  bool returned = false;
  const GiveUp all_returned = [&] {  // asked while the third sample is awaited
    return returned = seen == 2 && publisher->stats().bytes_in_flight == 0;
  };
  for (const Sample& sample : subscriber->samples(kLong, all_returned)) {
    ++seen;
    EXPECT_TRUE(is_filled(sample.tensor().as<float>(), static_cast<float>(seen)));
  }
  EXPECT_TRUE(returned);
}

TEST_F(Ranges, may_be_left_and_the_samples_kept) {
  publish(4);
  std::vector<Sample> kept;
  for (auto sample : *subscriber) {
    kept.push_back(std::move(sample));
    if (kept.size() == 2) break;
  }
  EXPECT_EQ(numbers_of(subscriber->samples(1ms)), (Numbers{2, 3}));
  EXPECT_EQ(numbers_of(kept), (Numbers{0, 1}));
}

TEST_F(Ranges, throw_at_the_hold_limit_and_go_on_later) {
  publish(0, {.max_held = 2});
  for (int i = 0; i < 3; ++i) publisher->publish(filled_loan(*publisher, static_cast<float>(i)));
  std::vector<Sample> kept;
  const auto keep_all = [&] {
    for (auto sample : subscriber->samples(kLong)) kept.push_back(std::move(sample));
  };
  EXPECT_EQ(code_of(keep_all), Code::kInvalidArgument);
  EXPECT_EQ(kept.size(), 2U);
  kept.clear();
  const auto rest = subscriber->samples(kLong);
  EXPECT_TRUE(is_filled((*rest.begin()).tensor().as<float>(), 2));
}

TEST_F(Ranges, throw_for_a_publisher_of_another_type_and_go_on_later) {
  subscriber.emplace("topic", SubscriberOptions{.type = message_type<Count>()}, borrower);
  Publisher other("topic", {.type = MessageType("test.Other\nvalue: str")}, owner);
  EXPECT_EQ(code_of([&] { (void)numbers_of(subscriber->samples(kLong)); }), Code::kTypeMismatch);
  Publisher right("topic", {.history = 1, .type = message_type<Count>()}, owner);
  tensorbus::publish(right, Count{5});
  for (const Count& count : messages<Count>(*subscriber, kLong)) {
    EXPECT_EQ(count.value, 5);
    break;
  }
}

TEST_F(Ranges, name_the_topic_of_a_message_that_is_no_such_struct) {
  publish(1);
  try {
    for (const Count& count : messages<Count>(*subscriber, kLong)) ADD_FAILURE() << count.value;
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kTypeMismatch);
    EXPECT_EQ(std::string(error.what()).substr(0, 24), "topic \"topic\": expected ");
  }
}

TEST_F(Ranges, of_a_moved_from_subscriber_throw) {
  publish(1);
  const Subscriber moved = std::move(*subscriber);
  EXPECT_EQ(code_of([&] { (void)subscriber->begin(); }), Code::kClosed);
}

TEST_F(Ranges, go_through_views) {
  publish(10);
  Numbers numbers;
  auto odd = *subscriber | std::views::transform(number_of) |
             std::views::filter([](std::int64_t number) { return number % 2 == 1; }) |
             std::views::take_while([](std::int64_t number) { return number < 7; });
  for (const std::int64_t number : odd) numbers.push_back(number);
  EXPECT_EQ(numbers, (Numbers{1, 3, 5}));
}

TEST_F(Ranges, for_each_says_what_ended_it) {
  publish(5);
  Numbers numbers;
  EXPECT_EQ(subscriber->for_each([&](const Sample& sample) {
    numbers.push_back(number_of(sample));
    return numbers.size() < 2;
  }),
            Outcome::kDone);
  EXPECT_EQ(subscriber->for_each([&](Sample sample) { numbers.push_back(number_of(sample)); }, 1ms),
            Outcome::kTimedOut);
  EXPECT_EQ(numbers, (Numbers{0, 1, 2, 3, 4}));
  EXPECT_EQ(subscriber->for_each([](const Sample&) {}, kLong, [] { return true; }),
            Outcome::kInterrupted);
  subscriber->close();
  EXPECT_EQ(subscriber->for_each([](const Sample&) {}), Outcome::kClosed);
}

TEST_F(Ranges, for_each_ends_with_what_the_callback_throws) {
  publish(2);
  const auto fail = [](const Sample&) { throw std::runtime_error("broken"); };
  EXPECT_THROW((void)subscriber->for_each(fail), std::runtime_error);
  EXPECT_EQ(numbers_of(subscriber->samples(1ms)), Numbers{1});
}

TEST_F(Ranges, of_items_end_when_the_queue_is_shut_down_and_empty) {
  Queue queue = queue_of(3);
  queue.shutdown();
  EXPECT_EQ(numbers_of(queue), (Numbers{0, 1, 2}));
}

TEST_F(Ranges, of_items_end_when_the_queue_is_closed_or_the_time_is_over) {
  Queue queue = queue_of(2);
  Queue same = Queue::open(queue.address(), kLong, {}, borrower);
  Numbers numbers;
  for (const Sample& item : same.items(kLong)) {
    numbers.push_back(number_of(item));
    if (numbers.size() == 2) break;
  }
  EXPECT_EQ(numbers, (Numbers{0, 1}));
  EXPECT_EQ(numbers_of(same.items(1ms)), Numbers{});
  std::jthread closing([&] { queue.close(); });
  EXPECT_EQ(numbers_of(same), Numbers{});
}

TEST_F(Ranges, of_one_queue_share_its_items) {
  Queue queue = queue_of(200);
  queue.shutdown();
  std::array<Numbers, 2> numbers;
  {
    std::jthread first([&] { numbers[0] = numbers_of(queue); });
    std::jthread second([&] { numbers[1] = numbers_of(queue); });
  }
  Numbers all = numbers[0];
  all.insert(all.end(), numbers[1].begin(), numbers[1].end());
  std::ranges::sort(all);
  EXPECT_TRUE(std::ranges::equal(all, std::views::iota(std::int64_t{0}, std::int64_t{200})));
}

TEST_F(Ranges, of_sets_end_with_a_stream) {
  Publisher left("left", {}, owner);
  Publisher right("right", {}, owner);
  const auto subscribe = [&](const char* topic) {
    return Subscriber(topic, {.end_of_stream = true}, borrower);
  };
  TimeSynchronizer pairs({.time = "at"}, subscribe("left"), subscribe("right"));
  for (Publisher* each : {&left, &right}) {
    ASSERT_EQ(each->wait_for_subscribers(1, kLong), Outcome::kDone);
    for (std::int64_t time = 0; time < 3; ++time) each->publish(Value::Map{{"at", time}}, {});
  }
  std::size_t count = 0;
  for (const auto& set : pairs.sets(kLong)) {
    EXPECT_EQ(set.size(), 2U);
    if (++count == 3) break;
  }
  EXPECT_EQ(code_of([&] {
              for (const auto& set : pairs.sets(1ms)) count += set.size();
            }),
            Code::kTimeout);
  EXPECT_EQ(count, 3U);
  for (Publisher* each : {&left, &right}) each->publish(Value::Map{{"at", std::int64_t{3}}}, {});
  left.close();
  count = 0;
  for (const auto& set : pairs) count += set.size();
  EXPECT_EQ(count, 2U) << "one set of two";
}

}  // namespace
}  // namespace tensorbus
