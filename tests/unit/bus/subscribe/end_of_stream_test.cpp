// What a subscriber with end_of_stream learns of the ends of its publishers.

#include <gtest/gtest.h>

#include <optional>

#include "tests/unit/bus/test_support.hpp"

namespace tensorbus {
namespace {

using namespace tensorbus::testing;

class EndOfStream : public ::testing::Test {
 protected:
  bus::Publisher joined(std::uint32_t publishers = 1) {
    bus::Publisher publisher("topic", {}, owner);
    EXPECT_EQ(subscriber.wait_for_publishers(publishers, kLong), Outcome::kDone);
    return publisher;
  }
  Outcome receive(std::chrono::nanoseconds timeout = kLong) {
    bus::Sample sample;
    return subscriber.receive(sample, timeout);
  }

  const FreshDomain domain;
  const bus::ParticipantRef owner = domain.join();
  const bus::ParticipantRef borrower = domain.join();
  bus::Subscriber subscriber{"topic", {.end_of_stream = true}, borrower};
};

TEST_F(EndOfStream, comes_after_the_last_sample) {
  bus::Publisher publisher = joined();
  publish_patterns(publisher, 0, 3);
  publisher.close();
  EXPECT_EQ(next_seeds(subscriber, 3), seeds_from(0, 3));
  EXPECT_EQ(receive(), Outcome::kClosed);
  EXPECT_TRUE(subscriber.ready());
  EXPECT_EQ(receive(), Outcome::kClosed);
}

TEST_F(EndOfStream, makes_it_ready_once_the_last_sample_was_taken) {
  bus::Publisher publisher = joined();
  publish_patterns(publisher, 0, 1);
  publisher.close();
  ASSERT_TRUE(eventually([&] { return subscriber.stats().publishers == 0; }));
  EXPECT_EQ(next_seeds(subscriber, 1), seeds_from(0, 1));
  EXPECT_TRUE(subscriber.ready());
  EXPECT_EQ(receive(0ns), Outcome::kClosed);
}

TEST_F(EndOfStream, ends_a_receive_that_waits) {
  std::optional<bus::Publisher> publisher(joined());
  std::thread thread([&] { publisher.reset(); });
  EXPECT_EQ(receive(), Outcome::kClosed);
  thread.join();
}

TEST_F(EndOfStream, waits_for_the_first_publisher) {
  EXPECT_EQ(receive(0ns), Outcome::kTimedOut);
  joined().close();
  EXPECT_EQ(receive(), Outcome::kClosed);
}

TEST_F(EndOfStream, waits_for_every_publisher) {
  bus::Publisher first = joined(1);
  bus::Publisher second = joined(2);
  first.close();
  publish_patterns(second, 0, 1);
  EXPECT_EQ(next_seeds(subscriber, 1), seeds_from(0, 1));
  EXPECT_EQ(receive(1ms), Outcome::kTimedOut);
  second.close();
  EXPECT_EQ(receive(), Outcome::kClosed);
}

TEST_F(EndOfStream, is_over_when_another_publisher_comes) {
  joined().close();
  EXPECT_EQ(receive(), Outcome::kClosed);
  bus::Publisher next = joined();
  publish_patterns(next, 7, 1);
  EXPECT_EQ(next_seeds(subscriber, 1), seeds_from(7, 1));
  next.close();
  EXPECT_EQ(receive(), Outcome::kClosed);
}

TEST_F(EndOfStream, comes_when_the_participant_of_the_publisher_ends) {
  const FreshDomain fresh;
  bus::Subscriber other("topic", {.end_of_stream = true}, fresh.join());
  {
    const bus::ParticipantRef brief = fresh.join();
    bus::Publisher publisher("topic", {}, brief);
    ASSERT_EQ(other.wait_for_publishers(1, kLong), Outcome::kDone);
    publish_patterns(publisher, 0, 1);
  }
  EXPECT_EQ(next_seeds(other, 1), seeds_from(0, 1));
  bus::Sample sample;
  EXPECT_EQ(other.receive(sample, kLong), Outcome::kClosed);
}

TEST_F(EndOfStream, is_told_to_those_alone_that_asked) {
  bus::Subscriber plain("topic", {}, borrower);
  bus::Publisher publisher = joined();
  ASSERT_EQ(plain.wait_for_publishers(1, kLong), Outcome::kDone);
  publisher.close();
  EXPECT_EQ(receive(), Outcome::kClosed);
  bus::Sample sample;
  EXPECT_EQ(plain.receive(sample, 1ms), Outcome::kTimedOut);
}

}  // namespace
}  // namespace tensorbus
