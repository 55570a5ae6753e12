// Publishers and subscribers within one process: who gets what, in which order.

#include <gtest/gtest.h>

#include <array>

#include "tensorbus/bus/copy/copy_tuner.hpp"
#include "tests/unit/bus/test_support.hpp"

namespace tensorbus {
namespace {

using namespace tensorbus::testing;
using bus::CopyTuner;

class Publish : public ::testing::Test {
 protected:
  // Both ends, connected.
  struct Pair {
    bus::Publisher publisher;
    bus::Subscriber subscriber;
  };
  Pair connected(const PublisherOptions& of_publisher = {},
                 const SubscriberOptions& of_subscriber = {}) {
    Pair pair{bus::Publisher("topic", of_publisher, owner),
              bus::Subscriber("topic", of_subscriber, borrower)};
    EXPECT_EQ(pair.publisher.wait_for_subscribers(1, kLong), Outcome::kDone);
    EXPECT_EQ(pair.subscriber.wait_for_publishers(1, kLong), Outcome::kDone);
    return pair;
  }

  const FreshDomain domain;
  const bus::ParticipantRef owner = domain.join();
  const bus::ParticipantRef borrower = domain.join();
};

TEST_F(Publish, a_sample_arrives_with_its_header) {
  auto [publisher, subscriber] = connected();
  const Published published = publish_pattern(publisher, 7);
  EXPECT_EQ(published.outcome, Outcome::kDone);
  EXPECT_EQ(published.subscribers, 1U);
  const auto sample = subscriber.receive(kLong);
  ASSERT_TRUE(sample);
  EXPECT_EQ(seed_of(*sample), 7U);
  EXPECT_EQ(sample->header().sequence, 0U);
  EXPECT_EQ(sample->header().publisher, owner->id());
  EXPECT_EQ(sample->header().topic, "topic");
  EXPECT_GT(sample->header().timestamp_ns, 0U);
}

// A subscriber that found nothing has made what a lone tensor is made of.
TEST_F(Publish, samples_of_every_kind_arrive_whether_or_not_somebody_looked_before) {
  auto [publisher, subscriber] = connected();
  std::vector<bus::Sample> kept;
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    if (seed % 4 < 2) {
      EXPECT_FALSE(subscriber.try_receive());
    }
    switch (seed % 3) {
      case 0:
        publish_pattern(publisher, seed);
        break;
      case 1: {
        const bus::Loan one = pattern_loan(publisher, seed);
        const bus::Loan other = pattern_loan(publisher, seed + 100);
        publisher.publish(Value(Value::List{TensorIndex{0}, TensorIndex{1}}),
                          {one.view(), other.view()});
        break;
      }
      case 2:
        publisher.publish(Value(seed), {});
        break;
    }
    auto sample = subscriber.receive(kLong);
    ASSERT_TRUE(sample);
    constexpr std::array<std::size_t, 3> kTensors = {1, 2, 0};
    ASSERT_EQ(sample->tensors().size(), kTensors[seed % 3]);
    kept.push_back(*std::move(sample));
  }
  for (std::uint64_t seed = 0; seed < kept.size(); ++seed) {
    const bus::Sample& sample = kept[seed];
    EXPECT_EQ(sample.header().sequence, seed);
    for (std::size_t i = 0; i < sample.tensors().size(); ++i)
      EXPECT_EQ(seed_of(sample.tensors()[i].as<std::uint64_t>()), seed + 100 * i);
    if (sample.tensors().empty()) {
      EXPECT_EQ(sample.fields(), Value(seed));
    }
  }
}

TEST_F(Publish, a_participant_can_subscribe_to_itself) {
  bus::Publisher publisher("topic", {}, owner);
  bus::Subscriber subscriber("topic", {}, owner);
  ASSERT_EQ(publisher.wait_for_subscribers(1, kLong), Outcome::kDone);
  publish_patterns(publisher, 0, 3);
  EXPECT_EQ(next_seeds(subscriber, 3), seeds_from(0, 3));
}

TEST_F(Publish, the_subscriber_may_come_first) {
  bus::Subscriber subscriber("topic", {}, borrower);
  bus::Publisher publisher("topic", {}, owner);
  EXPECT_EQ(subscriber.wait_for_publishers(1, kLong), Outcome::kDone);
  publish_patterns(publisher, 0, 1);
  EXPECT_EQ(next_seeds(subscriber, 1), seeds_from(0, 1));
}

TEST_F(Publish, topics_do_not_hear_each_other) {
  auto [publisher, subscriber] = connected();
  bus::Publisher other("topic/", {}, owner);
  bus::Subscriber of_other("topic/", {}, borrower);
  ASSERT_EQ(other.wait_for_subscribers(1, kLong), Outcome::kDone);
  publish_patterns(publisher, 1, 1);
  publish_patterns(other, 2, 1);
  EXPECT_EQ(next_seeds(subscriber, 1), seeds_from(1, 1));
  EXPECT_EQ(next_seeds(of_other, 1), seeds_from(2, 1));
  EXPECT_EQ(publisher.subscribers(), 1U);
}

TEST_F(Publish, several_publishers_reach_several_subscribers) {
  std::vector<bus::Publisher> publishers;
  std::vector<bus::Subscriber> subscribers;
  for (int i = 0; i < 3; ++i) {
    publishers.emplace_back("topic", PublisherOptions{}, i == 0 ? owner : borrower);
    subscribers.emplace_back("topic", SubscriberOptions{}, i == 0 ? borrower : owner);
  }
  for (bus::Publisher& publisher : publishers)
    ASSERT_EQ(publisher.wait_for_subscribers(3, kLong), Outcome::kDone);
  for (std::uint64_t i = 0; i < 3; ++i) publish_patterns(publishers[i], 10 * i, 2);
  for (bus::Subscriber& subscriber : subscribers) {
    Seeds seeds = next_seeds(subscriber, 6);
    std::sort(seeds.begin(), seeds.end());
    EXPECT_EQ(seeds, (Seeds{0, 1, 10, 11, 20, 21}));
  }
}

TEST_F(Publish, a_publisher_that_comes_again_is_found_again) {
  bus::Subscriber subscriber("topic", {}, borrower);
  for (std::uint64_t life = 0; life < 3; ++life) {
    const bus::ParticipantRef reborn = domain.join();
    bus::Publisher publisher("topic", {}, reborn);
    ASSERT_EQ(publisher.wait_for_subscribers(1, kLong), Outcome::kDone);
    publish_patterns(publisher, 10 * life, 2);
    EXPECT_EQ(next_seeds(subscriber, 2), seeds_from(10 * life, 2));
  }
  EXPECT_EQ(subscriber.stats().missed, 0U);
}

TEST_F(Publish, what_was_published_before_the_close_is_still_received) {
  auto [publisher, subscriber] = connected();
  publish_patterns(publisher, 0, 5);
  publisher.close();
  EXPECT_EQ(next_seeds(subscriber, 5), seeds_from(0, 5));
  const std::uint64_t late = 1;
  EXPECT_EQ(publisher.publish(TensorView::of(&late, {1})).outcome, Outcome::kClosed);
}

// Of a whole participant: what comes back to it then has no pages to give back, others read them.
TEST_F(Publish, what_was_published_before_the_owner_left_stays_whole) {
  bus::Subscriber subscriber("topic", {}, borrower);
  std::optional<bus::ParticipantRef> leaving = domain.join({.warm_bytes = 0});
  std::optional<bus::Publisher> publisher(std::in_place, "topic", PublisherOptions{}, *leaving);
  ASSERT_EQ(publisher->wait_for_subscribers(1, kLong), Outcome::kDone);
  for (std::uint64_t seed = 1; seed <= 2; ++seed) publish_pattern(*publisher, seed, 100'000);
  const auto held = subscriber.receive(kLong);
  publisher.reset();
  leaving.reset();
  ASSERT_TRUE(held);
  EXPECT_EQ(seed_of(*held), 1U);
  EXPECT_EQ(next_seeds(subscriber, 1), Seeds{2});
}

TEST_F(Publish, a_full_queue_drops_its_oldest_and_the_gap_is_counted) {
  auto [publisher, subscriber] = connected({.depth = 3});
  publish_patterns(publisher, 0, 10);
  EXPECT_EQ(next_seeds(subscriber, 3), seeds_from(7, 3));
  EXPECT_FALSE(subscriber.try_receive());
  EXPECT_EQ(subscriber.stats().missed, 7U);
  EXPECT_EQ(subscriber.stats().received, 3U);
  EXPECT_EQ(publisher.stats().dropped_depth, 7U);
  EXPECT_EQ(publisher.stats().delivered, 10U);
}

TEST_F(Publish, a_subscriber_may_choose_its_own_depth) {
  auto [publisher, subscriber] = connected({.depth = 3}, {.depth = 5});
  publish_patterns(publisher, 0, 10);
  EXPECT_EQ(next_seeds(subscriber, 5), seeds_from(5, 5));
  EXPECT_FALSE(subscriber.try_receive());
}

TEST_F(Publish, a_slow_subscriber_costs_only_itself) {
  auto [publisher, slow] = connected({.depth = 2});
  bus::Subscriber fast("topic", {.depth = 64}, borrower);
  ASSERT_EQ(publisher.wait_for_subscribers(2, kLong), Outcome::kDone);
  publish_patterns(publisher, 0, 50);
  EXPECT_EQ(next_seeds(fast, 50), seeds_from(0, 50));
  EXPECT_EQ(next_seeds(slow, 2), seeds_from(48, 2));
  EXPECT_FALSE(slow.try_receive());
}

TEST_F(Publish, who_holds_all_that_he_may_is_told_so) {
  auto [publisher, subscriber] = connected({}, {.max_held = 2});
  publish_patterns(publisher, 0, 4);
  std::vector<bus::Sample> held(3);
  ASSERT_EQ(subscriber.receive(held[0], kLong), Outcome::kDone);
  ASSERT_EQ(subscriber.try_receive(held[1]), Outcome::kDone);
  EXPECT_EQ(subscriber.try_receive(held[2]), Outcome::kHoldLimit);
  EXPECT_EQ(subscriber.receive(held[2], kLong), Outcome::kHoldLimit);
  EXPECT_EQ(code_of([&] { (void)subscriber.receive(kLong); }), Code::kInvalidArgument);
  EXPECT_EQ(subscriber.stats().held, 2U);
  held[0] = {};
  EXPECT_EQ(seeds_now(subscriber), seeds_from(2, 2));
}

TEST_F(Publish, holding_samples_holds_up_nobody_else) {
  auto [publisher, holder] = connected({.depth = 2}, {.max_held = 2});
  bus::Subscriber other("topic", {}, borrower);
  ASSERT_EQ(publisher.wait_for_subscribers(2, kLong), Outcome::kDone);
  std::vector<bus::Sample> held;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    publish_patterns(publisher, seed, 1);
    EXPECT_EQ(next_seeds(other, 1), seeds_from(seed, 1));
    bus::Sample sample;
    const bool more = held.size() < 2;
    EXPECT_EQ(holder.receive(sample, more ? kLong : 0s),
              more ? Outcome::kDone : Outcome::kHoldLimit);
    if (more) held.push_back(std::move(sample));
  }
  ASSERT_EQ(held.size(), 2U);
  EXPECT_EQ(seed_of(held[0]), 0U);
  EXPECT_EQ(seed_of(held[1]), 1U);
  held.clear();
  EXPECT_EQ(seeds_now(holder), seeds_from(18, 2));
}

TEST_F(Publish, nobody_there_is_no_mistake) {
  bus::Publisher publisher("topic", {}, owner);
  const Published published = publish_pattern(publisher, 1);
  EXPECT_EQ(published.outcome, Outcome::kDone);
  EXPECT_EQ(published.subscribers, 0U);
  EXPECT_EQ(used_bytes(owner, {&publisher}), 0U);
}

TEST_F(Publish, receive_gives_up_after_its_timeout) {
  auto [publisher, subscriber] = connected();
  EXPECT_FALSE(subscriber.receive(0ms));
  EXPECT_FALSE(subscriber.receive(5ms));
  EXPECT_FALSE(subscriber.receive(-5ms));
  bus::Sample sample;
  EXPECT_EQ(subscriber.receive(sample, 5ms), Outcome::kTimedOut);
}

TEST_F(Publish, close_wakes_a_receiver_that_waits) {
  auto [publisher, subscriber] = connected();
  std::thread closer([&subscriber = subscriber] { subscriber.close(); });
  bus::Sample sample;
  EXPECT_EQ(subscriber.receive(sample, kLong), Outcome::kClosed);
  closer.join();
  EXPECT_EQ(subscriber.wait_for_publishers(1, kLong), Outcome::kClosed);
  subscriber.close();
}

TEST_F(Publish, a_closed_subscriber_is_forgotten) {
  auto [publisher, subscriber] = connected();
  publish_patterns(publisher, 0, 3);
  subscriber.close();
  EXPECT_TRUE(eventually([&publisher = publisher] { return publisher.subscribers() == 0; }));
  EXPECT_EQ(used_bytes(owner, {&publisher}), 0U);
}

TEST_F(Publish, waiting_for_who_never_comes_ends) {
  bus::Publisher publisher("topic", {}, owner);
  EXPECT_EQ(publisher.wait_for_subscribers(1, 5ms), Outcome::kTimedOut);
  EXPECT_EQ(publisher.wait_for_subscribers(0, 0ms), Outcome::kDone);
  bus::Subscriber subscriber("other", {}, borrower);
  EXPECT_EQ(subscriber.wait_for_publishers(1, 5ms), Outcome::kTimedOut);
}

// The publisher tries both kinds of stores within so many messages.
TEST_F(Publish, large_tensors_that_are_copied_arrive_whole_whichever_stores_write_them) {
  auto [publisher, subscriber] = connected();
  std::vector<std::uint64_t> words(CopyTuner::kWorthTuning / 4);
  const std::span<std::uint64_t> all(words);
  const auto half = static_cast<std::int64_t>(words.size() / 2);
  for (std::uint64_t seed = 0; seed < 4 * CopyTuner::kTrial; ++seed) {
    write_pattern(all, seed);
    const bool alone = seed % 2 == 0;
    if (alone)
      publisher.publish(TensorView::of(all.data(), {2 * half}));
    else
      publisher.publish(Message{
          {TensorView::of(all.data(), {half}), TensorView::of(&all[words.size() / 2], {half})}});
    const auto sample = subscriber.receive(kLong);
    ASSERT_TRUE(sample);
    std::vector<std::uint64_t> arrived;
    for (const bus::Tensor& tensor : sample->tensors()) {
      const auto part = tensor.as<std::uint64_t>();
      arrived.insert(arrived.end(), part.begin(), part.end());
    }
    ASSERT_EQ(arrived, words) << seed;
  }
}

TEST_F(Publish, many_threads_can_publish_and_receive) {
  auto [publisher, subscriber] = connected({.depth = 1024});
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 4; ++t)
    threads.emplace_back([&publisher = publisher, t] { publish_patterns(publisher, 100 * t, 50); });
  std::array<Seeds, 2> seeds;
  for (Seeds& part : seeds)
    threads.emplace_back([&, &subscriber = subscriber] { part = next_seeds(subscriber, 100); });
  for (std::thread& thread : threads) thread.join();
  std::set<std::optional<std::uint64_t>> all(seeds[0].begin(), seeds[0].end());
  all.insert(seeds[1].begin(), seeds[1].end());
  EXPECT_EQ(all.size(), 200U);
  EXPECT_FALSE(all.contains(std::nullopt));
}

TEST_F(Publish, parked_receivers_miss_no_wake_up) {
  auto [publisher, subscriber] = connected({}, {.spin = 0ns});
  bus::Publisher back("back", {}, borrower);
  bus::Subscriber answers("back", {.spin = 0ns}, owner);
  ASSERT_EQ(back.wait_for_subscribers(1, kLong), Outcome::kDone);
  constexpr std::uint64_t kRounds = 2000;
  std::thread echo([&subscriber = subscriber, &back] {
    for (std::uint64_t i = 0; i < kRounds; ++i) {
      const auto sample = subscriber.receive(kLong);
      if (sample) publish_pattern(back, *seed_of(*sample));
    }
  });
  for (std::uint64_t i = 0; i < kRounds; ++i) {
    publish_pattern(publisher, i);
    EXPECT_EQ(next_seeds(answers, 1), seeds_from(i, 1));
  }
  echo.join();
}

TEST_F(Publish, an_empty_topic_is_refused) {
  EXPECT_EQ(code_of([&] { bus::Publisher("", {}, owner); }), Code::kInvalidArgument);
  EXPECT_EQ(code_of([&] { bus::Subscriber("", {}, owner); }), Code::kInvalidArgument);
}

TEST_F(Publish, elements_without_memory_are_refused) {
  bus::Publisher publisher("frames", {}, owner);
  for (const Dims& shape : {Dims{}, Dims{3}}) {
    const TensorView view{nullptr, Layout::contiguous(DType::kFloat32, shape)};
    EXPECT_EQ(code_of([&] { publisher.publish(view); }), Code::kInvalidArgument);
  }
  const TensorView empty{nullptr, Layout::contiguous(DType::kFloat32, {0, 3})};
  EXPECT_EQ(publisher.publish(empty).outcome, Outcome::kDone);
}

TEST_F(Publish, two_domains_do_not_hear_each_other) {
  const FreshDomain elsewhere;
  const bus::ParticipantRef stranger = elsewhere.join();
  bus::Publisher publisher("topic", {}, stranger);
  bus::Subscriber subscriber("topic", {}, borrower);
  EXPECT_EQ(subscriber.wait_for_publishers(1, 20ms), Outcome::kTimedOut);
}

}  // namespace
}  // namespace tensorbus
