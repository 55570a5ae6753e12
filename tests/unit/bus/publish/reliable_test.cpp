// Reliable publishers, and what late subscribers get.

#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <csignal>

#include "tests/unit/bus/test_support.hpp"

namespace tensorbus {
namespace {

using namespace tensorbus::testing;

class Reliable : public ::testing::Test {
 protected:
  Reliable() { EXPECT_EQ(publisher.wait_for_subscribers(1, kLong), Outcome::kDone); }

  // The third sample, which has no room, on a thread; returns when it waits for room.
  std::thread publish_third(Outcome& outcome) {
    publish_patterns(publisher, 0, 2);
    std::thread thread([&] { outcome = publish_pattern(publisher, 2).outcome; });
    EXPECT_TRUE(eventually([&] { return publisher.stats().waiting == 1; }));
    return thread;
  }

  const FreshDomain domain;
  const bus::ParticipantRef owner = domain.join();
  const bus::ParticipantRef borrower = domain.join();
  bus::Publisher publisher{"topic", {.depth = 2, .reliable = true}, owner};
  bus::Subscriber subscriber{"topic", {}, borrower};
};

TEST_F(Reliable, a_full_queue_makes_the_publisher_wait_for_room) {
  Outcome outcome = Outcome::kTimedOut;
  std::thread thread = publish_third(outcome);
  EXPECT_EQ(next_seeds(subscriber, 3), seeds_from(0, 3));
  thread.join();
  EXPECT_EQ(outcome, Outcome::kDone);
  EXPECT_EQ(publisher.stats().waited, 1U);
  EXPECT_EQ(publisher.stats().waiting, 0U);
}

TEST_F(Reliable, nothing_is_lost_at_any_speed) {
  constexpr std::uint64_t kSamples = kSanitized ? 2000 : 20'000;
  std::thread thread([&] { publish_patterns(publisher, 0, kSamples); });
  EXPECT_EQ(next_seeds(subscriber, kSamples), seeds_from(0, kSamples));
  thread.join();
  EXPECT_EQ(subscriber.stats().missed, 0U);
}

TEST_F(Reliable, a_publisher_that_gives_up_has_given_nobody_the_sample) {
  bus::Subscriber roomy("topic", {.depth = 100}, borrower);
  ASSERT_EQ(publisher.wait_for_subscribers(2, kLong), Outcome::kDone);
  publish_patterns(publisher, 0, 2);
  bus::Loan loan = pattern_loan(publisher, 99);
  Message message;
  message.tensors.push_back(loan.view());
  EXPECT_EQ(publisher.publish(message, 10ms).outcome, Outcome::kTimedOut);
  EXPECT_EQ(publisher.stats().timed_out, 1U);
  EXPECT_EQ(next_seeds(roomy, 2), seeds_from(0, 2));
  EXPECT_EQ(next_seeds(subscriber, 2), seeds_from(0, 2));
  EXPECT_FALSE(roomy.try_receive());
  EXPECT_FALSE(subscriber.try_receive());
  // The loan is still the caller's, and its sequence was not used up.
  loan.as<std::uint64_t>()[0] = 99;
  const Published published = publisher.publish(std::move(loan));
  EXPECT_EQ(published.outcome, Outcome::kDone);
  EXPECT_EQ(published.sequence, 2U);
  EXPECT_EQ(next_seeds(roomy, 1), Seeds{99});
  EXPECT_EQ(roomy.stats().missed, 0U);
}

TEST_F(Reliable, a_subscriber_that_is_not_is_never_waited_for) {
  bus::Subscriber viewer("topic", {.depth = 1, .reliable = false}, borrower);
  ASSERT_EQ(publisher.wait_for_subscribers(2, kLong), Outcome::kDone);
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    publish_patterns(publisher, seed, 1);
    EXPECT_EQ(next_seeds(subscriber, 1), Seeds{seed});
  }
  EXPECT_EQ(next_seeds(viewer, 1), Seeds{9});
  EXPECT_EQ(viewer.stats().missed, 9U);
  EXPECT_EQ(subscriber.stats().missed, 0U);
  EXPECT_EQ(publisher.stats().dropped_depth, 9U);
  EXPECT_EQ(publisher.stats().waited, 0U);
}

TEST_F(Reliable, a_subscriber_that_is_not_and_holds_all_it_may_is_never_waited_for) {
  bus::Subscriber viewer("topic", {.max_held = 1, .reliable = false}, borrower);
  ASSERT_EQ(publisher.wait_for_subscribers(2, kLong), Outcome::kDone);
  publish_patterns(publisher, 0, 1);
  bus::Sample held;
  ASSERT_EQ(viewer.receive(held, kLong), Outcome::kDone);
  EXPECT_EQ(next_seeds(subscriber, 1), Seeds{0});
  for (std::uint64_t seed = 1; seed < 10; ++seed) {
    publish_patterns(publisher, seed, 1);
    EXPECT_EQ(next_seeds(subscriber, 1), Seeds{seed});
  }
  EXPECT_EQ(publisher.stats().waited, 0U);
}

TEST_F(Reliable, a_publisher_names_the_process_that_it_waits_for) {
  EXPECT_EQ(publisher.stats().blocked_by, 0U);
  publish_patterns(publisher, 0, 2);
  EXPECT_EQ(publisher.stats().blocked_by, 0U);  // nothing waits for room
  Message message;
  EXPECT_EQ(publisher.publish(message, 10ms).outcome, Outcome::kTimedOut);
  EXPECT_EQ(publisher.stats().blocked_by, static_cast<std::uint32_t>(::getpid()));
  EXPECT_GE(publisher.stats().blocked_for, 10ms);
  EXPECT_EQ(next_seeds(subscriber, 1), Seeds{0});
  EXPECT_EQ(publisher.stats().blocked_by, 0U);
  EXPECT_EQ(publisher.stats().blocked_for, 0ns);
}

TEST_F(Reliable, a_loan_outlives_a_publish_that_gave_up) {
  bus::Loan loan = pattern_loan(publisher, 5);
  bus::Publisher impatient("other", {.depth = 1, .reliable = true, .timeout = 1ms}, owner);
  bus::Subscriber slow("other", {}, borrower);
  ASSERT_EQ(impatient.wait_for_subscribers(1, kLong), Outcome::kDone);
  publish_patterns(impatient, 0, 1);
  EXPECT_EQ(impatient.publish(std::move(loan)).outcome, Outcome::kTimedOut);
  EXPECT_EQ(seed_of(loan.as<std::uint64_t>()), 5U);  // NOLINT(bugprone-use-after-move)
}

TEST_F(Reliable, a_subscriber_that_closes_frees_the_publisher) {
  Outcome outcome = Outcome::kTimedOut;
  std::thread thread = publish_third(outcome);
  subscriber.close();
  thread.join();
  EXPECT_EQ(outcome, Outcome::kDone);
}

TEST_F(Reliable, a_publisher_that_closes_waits_no_longer) {
  Outcome outcome = Outcome::kTimedOut;
  std::thread thread = publish_third(outcome);
  publisher.close();
  thread.join();
  EXPECT_EQ(outcome, Outcome::kClosed);
  EXPECT_EQ(next_seeds(subscriber, 2), seeds_from(0, 2));
}

TEST_F(Reliable, a_signal_interrupts_the_wait_and_nobody_has_the_sample) {
  struct sigaction action{};
  struct sigaction before{};
  action.sa_handler = [](int) {};
  ASSERT_EQ(::sigaction(SIGUSR1, &action, &before), 0);
  Outcome outcome = Outcome::kDone;
  std::thread thread = publish_third(outcome);
  EXPECT_TRUE(eventually([&] {  // it may hit between two parks
    if (publisher.stats().waiting == 0) return true;
    ::pthread_kill(thread.native_handle(), SIGUSR1);
    return false;
  }));
  thread.join();
  ::sigaction(SIGUSR1, &before, nullptr);
  EXPECT_EQ(outcome, Outcome::kInterrupted);
  EXPECT_EQ(next_seeds(subscriber, 2), seeds_from(0, 2));
  EXPECT_FALSE(subscriber.try_receive());
}

TEST_F(Reliable, a_signal_interrupts_receive) {
  struct sigaction action{};
  struct sigaction before{};
  action.sa_handler = [](int) {};
  ASSERT_EQ(::sigaction(SIGUSR1, &action, &before), 0);
  std::atomic<bool> over{false};
  Outcome outcome = Outcome::kDone;
  std::thread thread([&] {
    bus::Sample sample;
    outcome = subscriber.receive(sample, kLong);
    over = true;
  });
  EXPECT_TRUE(eventually([&] {
    if (!over) ::pthread_kill(thread.native_handle(), SIGUSR1);
    return over.load();
  }));
  thread.join();
  ::sigaction(SIGUSR1, &before, nullptr);
  EXPECT_EQ(outcome, Outcome::kInterrupted);
}

class CutOff : public ::testing::Test {
 protected:
  explicit CutOff(const PublisherOptions& options = {.depth = 2,
                                                     .reliable = true,
                                                     .lag_timeout = 20ms})
      : publisher("topic", options, owner) {
    EXPECT_EQ(publisher.wait_for_subscribers(1, kLong), Outcome::kDone);
  }
  // Publishes more than the queue has room for: its subscriber is cut off.
  void cut_off() {
    publish_patterns(publisher, 0, 3);
    ASSERT_TRUE(eventually([&] { return subscriber.stats().cut_off == 1; }));
  }

  const FreshDomain domain;
  const bus::ParticipantRef owner = domain.join();
  const bus::ParticipantRef borrower = domain.join();
  bus::Subscriber subscriber{"topic", {}, borrower};
  bus::Publisher publisher;
};

TEST_F(CutOff, ends_the_wait_for_a_subscriber_that_takes_nothing) {
  cut_off();
  const PublisherStats stats = publisher.stats();
  EXPECT_EQ(stats.cut_off, 1U);
  EXPECT_EQ(stats.sent, 3U);
  EXPECT_EQ(stats.subscribers, 0U);
  EXPECT_EQ(stats.blocked_by, 0U);
  EXPECT_EQ(stats.bytes_in_flight, 0U);  // its queue was dropped
}

TEST_F(CutOff, comes_after_several_calls_that_gave_up) {
  publish_patterns(publisher, 0, 2);
  const Message message;
  EXPECT_TRUE(
      eventually([&] { return publisher.publish(message, 0ns).outcome == Outcome::kDone; }));
  EXPECT_EQ(publisher.stats().cut_off, 1U);
  EXPECT_GE(publisher.stats().timed_out, 1U);
}

TEST_F(CutOff, is_counted_by_the_subscriber_which_then_gets_new_samples) {
  cut_off();
  EXPECT_FALSE(subscriber.try_receive());
  ASSERT_EQ(publisher.wait_for_subscribers(1, kLong), Outcome::kDone);
  publish_patterns(publisher, 3, 2);
  EXPECT_EQ(next_seeds(subscriber, 2), seeds_from(3, 2));
  EXPECT_EQ(subscriber.stats().missed, 3U);
  EXPECT_EQ(subscriber.stats().cut_off, 1U);
}

TEST_F(CutOff, joins_again_with_a_subscriber_that_is_polled) {
  (void)subscriber.event_descriptor();
  cut_off();
  EXPECT_FALSE(subscriber.ready());
  ASSERT_EQ(publisher.wait_for_subscribers(1, kLong), Outcome::kDone);
  publish_patterns(publisher, 3, 1);
  EXPECT_EQ(next_seeds(subscriber, 1), seeds_from(3, 1));
}

TEST_F(CutOff, leaves_a_subscriber_alone_that_looks_for_nothing) {
  bus::Subscriber other("topic", {.depth = 2}, borrower);
  ASSERT_EQ(publisher.wait_for_subscribers(2, kLong), Outcome::kDone);
  publish_patterns(publisher, 0, 3);
  ASSERT_TRUE(eventually([&] { return subscriber.stats().cut_off + other.stats().cut_off == 2; }));
  EXPECT_FALSE(other.try_receive());
  ASSERT_EQ(publisher.wait_for_subscribers(1, kLong), Outcome::kDone);
  EXPECT_EQ(other.wait_for_publishers(1, kLong), Outcome::kDone);
  EXPECT_EQ(publisher.subscribers(), 1U);
  EXPECT_EQ(publisher.stats().waited, 1U);
}

TEST_F(CutOff, keeps_what_the_subscriber_holds) {
  publish_patterns(publisher, 0, 1);
  const auto held = subscriber.receive(kLong);
  ASSERT_TRUE(held);
  publish_patterns(publisher, 1, 3);
  ASSERT_TRUE(eventually([&] { return subscriber.stats().cut_off == 1; }));
  EXPECT_FALSE(subscriber.try_receive());
  ASSERT_EQ(publisher.wait_for_subscribers(1, kLong), Outcome::kDone);
  publish_patterns(publisher, 4, 1);
  EXPECT_EQ(next_seeds(subscriber, 1), seeds_from(4, 1));
  EXPECT_EQ(subscriber.stats().missed, 3U);
  EXPECT_EQ(seed_of(*held), 0U);
}

TEST_F(CutOff, is_the_end_of_no_stream) {
  bus::Subscriber reader("topic", {.depth = 1, .end_of_stream = true}, borrower);
  ASSERT_EQ(publisher.wait_for_subscribers(2, kLong), Outcome::kDone);
  publish_patterns(publisher, 0, 3);
  ASSERT_TRUE(eventually([&] { return reader.stats().cut_off == 1; }));
  bus::Sample sample;
  EXPECT_EQ(reader.receive(sample, 1ms), Outcome::kTimedOut);
  publisher.close();  // perhaps before the reader is joined again
  EXPECT_EQ(reader.receive(sample, kLong), Outcome::kClosed);
  EXPECT_EQ(reader.stats().missed, 3U);  // what was lost at the end counts, too
}

class CutOffWithHistory : public CutOff {
 protected:
  CutOffWithHistory() : CutOff({.depth = 4, .history = 3, .reliable = true, .lag_timeout = 20ms}) {}
};

TEST_F(CutOffWithHistory, is_made_up_for_from_the_history_without_doubles) {
  publish_patterns(publisher, 0, 2);
  EXPECT_EQ(next_seeds(subscriber, 2), seeds_from(0, 2));
  publish_patterns(publisher, 2, 5);
  ASSERT_TRUE(eventually([&] { return subscriber.stats().cut_off == 1; }));
  EXPECT_EQ(next_seeds(subscriber, 3), seeds_from(4, 3));
  EXPECT_EQ(subscriber.stats().missed, 2U);
}

TEST(LagTimeout, is_refused_where_it_makes_no_sense) {
  const FreshDomain domain;
  const bus::ParticipantRef owner = domain.join();
  EXPECT_THROW(bus::Publisher("topic", {.lag_timeout = 1s}, owner), Error);
  EXPECT_THROW(bus::Publisher("topic", {.reliable = true, .lag_timeout = 0s}, owner), Error);
}

class History : public ::testing::Test {
 protected:
  const FreshDomain domain;
  const bus::ParticipantRef owner = domain.join();
  const bus::ParticipantRef borrower = domain.join();
};

TEST_F(History, a_late_subscriber_gets_the_last_samples) {
  bus::Publisher publisher("topic", {.history = 3}, owner);
  publish_patterns(publisher, 0, 10);
  bus::Subscriber late("topic", {}, borrower);
  EXPECT_EQ(next_seeds(late, 3), seeds_from(7, 3));
  publish_patterns(publisher, 10, 1);
  EXPECT_EQ(next_seeds(late, 1), seeds_from(10, 1));
  EXPECT_EQ(late.stats().missed, 0U);
}

TEST_F(History, is_no_longer_than_what_there_was) {
  bus::Publisher publisher("topic", {.history = 5}, owner);
  publish_patterns(publisher, 0, 2);
  bus::Subscriber late("topic", {}, borrower);
  EXPECT_EQ(next_seeds(late, 2), seeds_from(0, 2));
}

TEST_F(History, is_cut_to_the_depth_of_the_subscriber) {
  bus::Publisher publisher("topic", {.history = 5}, owner);
  publish_patterns(publisher, 0, 5);
  bus::Subscriber late("topic", {.depth = 2}, borrower);
  EXPECT_EQ(next_seeds(late, 2), seeds_from(3, 2));
}

TEST_F(History, goes_when_the_publisher_closes) {
  bus::Publisher publisher("topic", {.history = 5}, owner);
  publish_patterns(publisher, 0, 5);
  EXPECT_GT(owner->memory_use().used_bytes, 0U);
  publisher.close();
  EXPECT_EQ(owner->memory_use().used_bytes, 0U);
}

TEST_F(History, meets_the_stream_without_a_gap_or_a_double) {
  bus::Publisher publisher("topic", {.history = 4}, owner);
  std::atomic<bool> done{false};
  std::thread publishing([&] {
    for (std::uint64_t seed = 0; !done; ++seed) publish_pattern(publisher, seed, 4);
  });
  for (int round = 0; round < (kSanitized ? 20 : 100); ++round) {
    bus::Subscriber late("topic", {.depth = 65536}, borrower);
    const auto first = late.receive(kLong);
    ASSERT_TRUE(first);
    std::uint64_t expected = *seed_of(*first);
    EXPECT_EQ(first->header().sequence, expected);
    for (int i = 0; i < 20; ++i) {
      const auto sample = late.receive(kLong);
      ASSERT_TRUE(sample);
      ASSERT_EQ(seed_of(*sample), ++expected) << "round " << round;
    }
    EXPECT_EQ(late.stats().missed, 0U);
  }
  done = true;
  publishing.join();
}

}  // namespace
}  // namespace tensorbus
