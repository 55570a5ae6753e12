// Access::kShared: subscribers write to what they receive, and all see it; and who may not.

#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <string>

#include "tests/unit/bus/test_support.hpp"
#include "tests/unit/platform/test_support.hpp"

namespace tensorbus {
namespace {

using namespace tensorbus::testing;

constexpr SubscriberOptions kSharing{.access = Access::kShared};

class Shared : public ::testing::Test {
 protected:
  Shared() { EXPECT_EQ(publisher.wait_for_subscribers(1, kLong), Outcome::kDone); }

  const FreshDomain domain;
  const bus::ParticipantRef owner = domain.join();
  const bus::ParticipantRef borrower = domain.join();
  bus::Publisher publisher{"topic", {.history = 1, .shared = true}, owner};
  bus::Subscriber subscriber{"topic", kSharing, borrower};
};

TEST_F(Shared, a_write_is_seen_by_the_publisher_and_all_who_hold_the_sample) {
  bus::Subscriber reading("topic", {}, borrower);  // the same connection, another grant
  bus::Subscriber writing_too("topic", kSharing, borrower);
  ASSERT_EQ(publisher.wait_for_subscribers(3, kLong), Outcome::kDone);
  bus::Loan loan = pattern_loan(publisher, 1);
  ASSERT_EQ(publisher.publish(loan.view()).outcome, Outcome::kDone);
  const auto mine = subscriber.receive(kLong);
  const auto read = reading.receive(kLong);
  const auto other = writing_too.receive(kLong);
  ASSERT_TRUE(mine && read && other);
  EXPECT_TRUE(mine->tensor().writable());
  EXPECT_FALSE(read->tensor().writable());
  EXPECT_NE(mine->tensor().data(), read->tensor().data());
  EXPECT_EQ(mine->tensor().data(), other->tensor().data());
  write_pattern(mine->tensor().as_mutable<std::uint64_t>(), 2);
  EXPECT_EQ(seed_of(loan.as<std::uint64_t>()), 2U);
  EXPECT_EQ(seed_of(*read), 2U);
  EXPECT_EQ(seed_of(*other), 2U);
  EXPECT_EQ(subscriber.stats().bad + reading.stats().bad, 0U);
}

TEST_F(Shared, a_private_subscriber_beside_it_keeps_what_it_wrote) {
  bus::Subscriber own("topic", {.access = Access::kPrivate}, borrower);
  ASSERT_EQ(publisher.wait_for_subscribers(2, kLong), Outcome::kDone);
  publish_patterns(publisher, 1, 1);
  const auto theirs = subscriber.receive(kLong);
  const auto mine = own.receive(kLong);
  ASSERT_TRUE(theirs && mine);
  write_pattern(mine->tensor().as_mutable<std::uint64_t>(), 2);
  write_pattern(theirs->tensor().as_mutable<std::uint64_t>(), 3);
  EXPECT_EQ(seed_of(*mine), 2U);
  EXPECT_EQ(seed_of(*theirs), 3U);
}

TEST_F(Shared, copies_can_be_written_like_loans) {
  const std::array<std::uint64_t, 3> own{1, 2, 3};
  publisher.publish(Value::Map{{"text", std::string(200, 'x')}}, {TensorView::of(own.data(), {3})});
  const auto sample = subscriber.receive(kLong);
  ASSERT_TRUE(sample);
  sample->tensor().as_mutable<std::uint64_t>()[1] = 9;
  EXPECT_EQ(sample->tensor().as<std::uint64_t>()[1], 9U);
  EXPECT_EQ(own[1], 2U);
}

TEST_F(Shared, a_late_subscriber_sees_what_was_written) {
  publish_patterns(publisher, 1, 1);
  const auto sample = subscriber.receive(kLong);
  ASSERT_TRUE(sample);
  write_pattern(sample->tensor().as_mutable<std::uint64_t>(), 7);
  bus::Subscriber late("topic", {}, borrower);
  EXPECT_EQ(next_seeds(late, 1), Seeds{7});
}

TEST_F(Shared, memory_comes_back_and_is_used_again) {
  bus::Subscriber reading("topic", {}, borrower);
  ASSERT_EQ(publisher.wait_for_subscribers(2, kLong), Outcome::kDone);
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    publish_pattern(publisher, seed, 100000);
    EXPECT_EQ(next_seeds(subscriber, 1), Seeds{seed});
    EXPECT_EQ(next_seeds(reading, 1), Seeds{seed});
  }
  publisher.close();
  EXPECT_EQ(owner->memory_use().segments, 1U);
  EXPECT_EQ(used_bytes(owner, {&publisher}), 0U);
}

TEST_F(Shared, segments_that_retire_are_forgotten_by_readers_and_writers) {
  const bus::ParticipantRef frugal = domain.join({.warm_bytes = 0, .segment_bytes = 1 << 20});
  bus::Publisher changing("changing", {.shared = true}, frugal);
  bus::Subscriber reading("changing", {}, borrower);
  bus::Subscriber writing("changing", kSharing, borrower);
  ASSERT_EQ(changing.wait_for_subscribers(2, kLong), Outcome::kDone);
  const std::size_t before = open_descriptors();
  std::vector<bus::Sample> held;
  for (std::uint64_t seed = 0; seed < 8; ++seed) {  // a segment each
    publish_pattern(changing, seed, (std::size_t{1} << 20) / 8);
    for (bus::Subscriber* each : {&reading, &writing}) {
      held.push_back(*each->receive(kLong));
      EXPECT_EQ(seed_of(held.back()), seed);
    }
  }
  EXPECT_GE(open_descriptors(), before + 20)  // a few were under way before
      << "one at the owner, one at each subscriber";
  held.clear();
  EXPECT_EQ(used_bytes(frugal, {&changing}), 0U);
  EXPECT_TRUE(eventually([&] { return open_descriptors() <= before + 3; }));
}

TEST_F(Shared, what_is_not_shared_is_refused_and_the_refusal_says_what_to_do) {
  bus::Publisher closed("closed", {}, owner);
  bus::Subscriber asking("closed", kSharing, borrower);
  ASSERT_TRUE(eventually([&] { return asking.stats().refused == 1; }));
  const std::string why = asking.stats().last_refusal;
  EXPECT_NE(why.find("shared=True"), std::string::npos) << why;
  EXPECT_EQ(closed.subscribers(), 0U);
  EXPECT_EQ(asking.wait_for_publishers(1, 5ms), Outcome::kTimedOut);
  EXPECT_FALSE(asking.receive(5ms));
  bus::Publisher open("closed", {.shared = true}, owner);
  ASSERT_EQ(open.wait_for_subscribers(1, kLong), Outcome::kDone);
  publish_patterns(open, 4, 1);
  EXPECT_EQ(next_seeds(asking, 1), Seeds{4}) << "others of the topic are not touched";
}

TEST_F(Shared, a_loan_is_published_by_its_own_kind_of_publisher) {
  bus::Publisher closed("closed", {}, owner);
  bus::Loan ordinary = pattern_loan(closed, 1);
  bus::Loan open = pattern_loan(publisher, 2);
  std::string message;
  EXPECT_EQ(test::error_of([&] { publisher.publish(ordinary.view()); }, &message),
            "InvalidArgument");
  EXPECT_NE(message.find("publish a copy"), std::string::npos) << message;
  EXPECT_EQ(test::error_of([&] { closed.publish(open.view()); }), "InvalidArgument");
  EXPECT_EQ(test::error_of([&] { closed.publish(std::move(open)); }), "InvalidArgument");
  // Neither is spent.
  EXPECT_EQ(closed.publish(std::move(ordinary)).outcome, Outcome::kDone);
  EXPECT_EQ(publisher.publish(std::move(open)).outcome, Outcome::kDone);
  EXPECT_EQ(next_seeds(subscriber, 1), Seeds{2});
}

// What the kernel says about all mappings of one name that this process has.
std::size_t writable_segments() {
  std::ifstream file("/proc/self/maps");
  std::size_t count = 0;
  for (std::string line; std::getline(file, line);)
    if (line.find("tensorbus-segment") != std::string::npos &&
        line.find(" rw-s ") != std::string::npos)
      ++count;
  return count;
}

TEST_F(Shared, only_who_asked_maps_the_memory_writable_and_only_that_memory) {
  const std::size_t of_others = writable_segments();
  bus::Publisher closed("closed", {}, owner);
  bus::Subscriber reading("topic", {}, borrower);
  bus::Subscriber elsewhere("closed", {}, borrower);
  ASSERT_EQ(publisher.wait_for_subscribers(2, kLong), Outcome::kDone);
  ASSERT_EQ(closed.wait_for_subscribers(1, kLong), Outcome::kDone);
  publish_patterns(closed, 1, 1);
  publish_patterns(publisher, 1, 1);
  EXPECT_EQ(next_seeds(reading, 1), Seeds{1});
  EXPECT_EQ(next_seeds(elsewhere, 1), Seeds{1});
  EXPECT_EQ(next_seeds(subscriber, 1), Seeds{1});
  // The owner's two, which are in this process as well, and the one of the shared subscriber.
  EXPECT_EQ(writable_segments(), of_others + 3);
}

}  // namespace
}  // namespace tensorbus
