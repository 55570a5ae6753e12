// Several samples received at once: the same ones, in the same order, as one by one.

#include <gtest/gtest.h>
#include <poll.h>

#include <array>
#include <random>

#include "tests/unit/bus/test_support.hpp"

namespace tensorbus {
namespace {

using namespace tensorbus::testing;

class Batch : public ::testing::Test {
 protected:
  void connect(const PublisherOptions& publishing, const SubscriberOptions& receiving = {}) {
    publisher.emplace("topic", publishing, owner);
    subscriber.emplace("topic", receiving, borrower);
    ASSERT_EQ(publisher->wait_for_subscribers(1, kLong), Outcome::kDone);
    ASSERT_EQ(subscriber->wait_for_publishers(1, kLong), Outcome::kDone);
  }
  Outcome receive(std::size_t most = 64, std::chrono::nanoseconds timeout = kLong) {
    return subscriber->receive_many(std::span(samples).first(most), count, timeout);
  }
  // Of the samples that came last.
  Seeds seeds() const {
    Seeds seeds;
    for (const bus::Sample& sample : std::span(samples).first(count))
      seeds.push_back(seed_of(sample));
    return seeds;
  }
  // Numbers, as fields.
  void publish_numbers(std::int64_t first, std::int64_t many) {
    for (std::int64_t number = first; number < first + many; ++number)
      ASSERT_EQ(publisher->publish(Value(number), {}).outcome, Outcome::kDone);
  }
  std::vector<std::int64_t> numbers() const {
    std::vector<std::int64_t> all;
    for (const bus::Sample& sample : std::span(samples).first(count))
      all.push_back(sample.fields().as<std::int64_t>());
    return all;
  }

  const FreshDomain domain;
  const bus::ParticipantRef owner = domain.join();
  const bus::ParticipantRef borrower = domain.join();
  std::optional<bus::Publisher> publisher;
  std::optional<bus::Subscriber> subscriber;
  std::array<bus::Sample, 64> samples;
  std::size_t count = 0;
};

TEST_F(Batch, has_what_is_there_in_order) {
  connect({.depth = 64});
  publish_patterns(*publisher, 0, 5);
  ASSERT_EQ(receive(), Outcome::kDone);
  EXPECT_EQ(seeds(), seeds_from(0, 5));
  EXPECT_EQ(subscriber->stats().received, 5U);
}

TEST_F(Batch, has_no_more_than_there_is_room_for) {
  connect({.depth = 64});
  publish_patterns(*publisher, 0, 5);
  ASSERT_EQ(receive(2), Outcome::kDone);
  EXPECT_EQ(seeds(), seeds_from(0, 2));
  ASSERT_EQ(receive(2), Outcome::kDone);
  EXPECT_EQ(seeds(), seeds_from(2, 2));
  EXPECT_THROW(receive(0), Error);
}

TEST_F(Batch, waits_for_its_first_sample_alone) {
  connect({.depth = 64});
  EXPECT_EQ(receive(64, 1ms), Outcome::kTimedOut);
  EXPECT_EQ(count, 0U);
  std::thread thread([&] { publish_patterns(*publisher, 7, 1); });
  EXPECT_EQ(receive(), Outcome::kDone);
  EXPECT_EQ(seeds(), seeds_from(7, 1));
  thread.join();
}

TEST_F(Batch, lets_go_of_what_was_there_before) {
  connect({.depth = 64}, {.max_held = 3});
  publish_patterns(*publisher, 0, 9);
  for (std::uint64_t first = 0; first < 9; first += 3) {
    ASSERT_EQ(receive(), Outcome::kDone);
    EXPECT_EQ(seeds(), seeds_from(first, 3));
  }
  EXPECT_EQ(receive(64, 0ns), Outcome::kTimedOut);
  EXPECT_EQ(used_bytes(owner, {&*publisher}), 0U);
}

TEST_F(Batch, ends_at_the_hold_limit_and_the_next_one_says_so) {
  connect({.depth = 64}, {.max_held = 3});
  publish_patterns(*publisher, 0, 5);
  ASSERT_EQ(receive(), Outcome::kDone);
  EXPECT_EQ(count, 3U);
  std::array<bus::Sample, 4> others;
  std::size_t more = 0;
  EXPECT_EQ(subscriber->receive_many(others, more, kLong), Outcome::kHoldLimit);
  EXPECT_EQ(more, 0U);
  ASSERT_EQ(receive(), Outcome::kDone);
  EXPECT_EQ(seeds(), seeds_from(3, 2));
}

TEST_F(Batch, of_fields_holds_nothing) {
  connect({.depth = 64, .reliable = true}, {.max_held = 1});
  for (std::int64_t first = 0; first < 300; first += 50) {
    publish_numbers(first, 50);
    ASSERT_EQ(receive(), Outcome::kDone);
    ASSERT_EQ(count, 50U);
    EXPECT_EQ(numbers().front(), first);
    EXPECT_EQ(numbers().back(), first + 49);
    EXPECT_EQ(subscriber->stats().held, 0U);
  }
  EXPECT_EQ(publisher->stats().bad_returns, 0U);
}

TEST_F(Batch, of_fields_and_tensors_keeps_their_order) {
  connect({.depth = 64, .reliable = true}, {.max_held = 8});
  publish_patterns(*publisher, 0, 1);
  ASSERT_EQ(receive(), Outcome::kDone);  // its memory came, and will not be waited for again
  for (std::int64_t number = 0; number < 8; ++number) {
    publish_numbers(number, 1);
    publish_patterns(*publisher, static_cast<std::uint64_t>(number), 1);
  }
  ASSERT_EQ(receive(), Outcome::kDone);
  ASSERT_EQ(count, 16U);
  for (std::size_t i = 0; i < 16; i += 2) {
    EXPECT_EQ(samples[i].fields().as<std::int64_t>(), static_cast<std::int64_t>(i / 2));
    EXPECT_EQ(seed_of(samples[i + 1]), i / 2);
  }
  EXPECT_EQ(subscriber->stats().held, 8U);
}

TEST_F(Batch, has_the_publishers_take_turns) {
  connect({.depth = 64});
  bus::Publisher other("topic", {.depth = 64}, owner);
  ASSERT_EQ(subscriber->wait_for_publishers(2, kLong), Outcome::kDone);
  publish_patterns(other, 99, 1);  // until the segment has come, its publisher's turns are passed
  ASSERT_EQ(receive(1), Outcome::kDone);
  publish_patterns(*publisher, 0, 8);
  publish_patterns(other, 100, 8);
  ASSERT_EQ(receive(8), Outcome::kDone);
  Seeds all = seeds();
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all, (Seeds{0, 1, 2, 3, 100, 101, 102, 103}));
}

TEST_F(Batch, gives_its_publisher_room) {
  connect({.depth = 2, .reliable = true});
  constexpr std::int64_t kSamples = kSanitized ? 2000 : 20'000;
  std::thread thread([&] { publish_numbers(0, kSamples); });
  for (std::int64_t next = 0; next < kSamples;) {
    ASSERT_EQ(receive(), Outcome::kDone);
    for (const std::int64_t number : numbers()) ASSERT_EQ(number, next++);
  }
  thread.join();
  EXPECT_EQ(subscriber->stats().missed, 0U);
}

TEST_F(Batch, finds_what_one_by_one_would_find) {
  connect({.depth = 16, .reliable = true}, {.max_held = 24});
  bus::Subscriber one_by_one("topic", {}, borrower);
  ASSERT_EQ(publisher->wait_for_subscribers(2, kLong), Outcome::kDone);
  std::minstd_rand random(7);
  Seeds single;
  Seeds batched;
  for (std::uint64_t next = 0; next < 500;) {
    const std::uint64_t many = random() % 16;
    publish_patterns(*publisher, next, many);
    next += many;
    for (const auto& seed : next_seeds(one_by_one, many)) single.push_back(seed);
    while (receive(1 + random() % 20, 0ns) == Outcome::kDone)
      for (const auto& seed : seeds()) batched.push_back(seed);
  }
  EXPECT_EQ(batched, single);
}

TEST_F(Batch, that_found_nothing_arms_the_descriptor) {
  connect({.depth = 64});
  pollfd polled{subscriber->event_descriptor(), POLLIN, 0};
  // The publisher rings a new notifier once, when it comes: it may have rung in vain before.
  EXPECT_TRUE(eventually(
      [&] { return receive(64, 0ns) == Outcome::kTimedOut && ::poll(&polled, 1, 0) == 0; }));
  publish_numbers(0, 3);
  EXPECT_EQ(::poll(&polled, 1, -1), 1);
  EXPECT_EQ(receive(2, 0ns), Outcome::kDone);
  EXPECT_EQ(::poll(&polled, 1, 0), 1);
  EXPECT_EQ(receive(2, 0ns), Outcome::kDone);
  EXPECT_EQ(receive(2, 0ns), Outcome::kTimedOut);
  EXPECT_EQ(::poll(&polled, 1, 0), 0);
}

TEST_F(Batch, of_a_subscriber_that_closed_says_so) {
  connect({.depth = 64});
  publish_patterns(*publisher, 0, 2);
  ASSERT_EQ(receive(), Outcome::kDone);
  subscriber->close();
  EXPECT_EQ(seeds(), seeds_from(0, 2));
  EXPECT_EQ(receive(), Outcome::kClosed);
  EXPECT_EQ(count, 0U);
}

TEST_F(Batch, says_once_that_a_publisher_has_another_type) {
  publisher.emplace("topic", PublisherOptions{.depth = 8, .type = MessageType("a.Type\nx: int")},
                    owner);
  subscriber.emplace("topic", SubscriberOptions{.type = MessageType("a.Type\nx: str")}, borrower);
  EXPECT_EQ(code_of([&] { receive(); }), Code::kTypeMismatch);
  EXPECT_EQ(receive(64, 1ms), Outcome::kTimedOut);
}

}  // namespace
}  // namespace tensorbus
