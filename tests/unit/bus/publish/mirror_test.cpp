// What bridges need of publishers and subscribers (docs/internals/bridge_protocol.md).

#include <gtest/gtest.h>
#include <poll.h>
#include <tensorbus/c/sample.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tensorbus/bus/listing.hpp"
#include "tensorbus/bus/publish/outgoing_sample.hpp"
#include "tensorbus/c/objects.hpp"
#include "tests/unit/bus/test_support.hpp"

namespace tensorbus {
namespace {

using namespace tensorbus::testing;

const link::MirrorOrigin kOrigin{"robot", "00112233445566778899aabbccddeeff.7"};

bool readable(int fd, std::chrono::milliseconds timeout = kLong) {
  pollfd self{fd, POLLIN, 0};
  return ::poll(&self, 1, static_cast<int>(timeout.count())) == 1;
}

class Mirror : public ::testing::Test {
 protected:
  bus::Publisher mirror(const PublisherOptions& options = {}) {
    return bus::Publisher("topic", options, owner, kOrigin);
  }
  Published publish_as(bus::Publisher& publisher, std::uint64_t sequence,
                       std::chrono::nanoseconds timeout = kLong) const {
    const std::vector<std::byte> fields = Value(static_cast<std::int64_t>(sequence)).encode();
    Message message;
    message.fields = fields;
    return publisher.publish_as(message, {sequence, 1000 + sequence}, timeout);
  }
  // The numbers of all samples that are there now.
  static std::vector<std::uint64_t> numbers_now(bus::Subscriber& subscriber) {
    std::vector<std::uint64_t> numbers;
    while (const auto sample = subscriber.try_receive())
      numbers.push_back(sample->header().sequence);
    return numbers;
  }
  static void join(bus::Subscriber& subscriber, std::uint32_t publishers = 1) {
    ASSERT_EQ(subscriber.wait_for_publishers(publishers, kLong), Outcome::kDone);
  }

  static void break_off(bus::Publisher& publisher, const bus::Subscriber& subscriber) {
    publisher.break_off();
    ASSERT_TRUE(eventually([&] { return subscriber.stats().publishers == 0; }));
  }

  const FreshDomain domain;
  const bus::ParticipantRef owner = domain.join();
  const bus::ParticipantRef borrower = domain.join();
};

using Numbers = std::vector<std::uint64_t>;

TEST_F(Mirror, tells_each_subscriber_what_it_stands_for) {
  bus::Publisher publisher = mirror({.history = 1});
  publish_patterns(publisher, 1, 1);
  bus::Subscriber subscriber("topic", {}, borrower);
  const auto sample = subscriber.receive(kLong);
  ASSERT_TRUE(sample);
  const bus::Sample copy = sample->copy();
  for (const bus::Sample* one : {&*sample, &copy}) {
    ASSERT_NE(one->mirrored(), nullptr);
    EXPECT_EQ(one->mirrored()->machine, kOrigin.machine);
    EXPECT_EQ(one->mirrored()->publisher, kOrigin.publisher);
  }
}

TEST_F(Mirror, has_an_origin_in_c) {
  bus::Publisher publisher = mirror({.history = 1});
  (void)publish_as(publisher, 42);
  bus::Subscriber subscriber("topic", {}, borrower);
  auto received = subscriber.receive(kLong);
  ASSERT_TRUE(received);
  tb_sample* const sample = c::sample_of(*std::move(received));
  tb_sample_header header = TB_SAMPLE_HEADER_INIT;
  tb_sample_get_header(sample, &header);
  tb_sample_release(sample);
  EXPECT_EQ(header.has_origin, 1);
  EXPECT_EQ(header.origin.sequence, 42U);
  const auto writer = bus::parse_publisher_name(kOrigin.publisher);
  ASSERT_TRUE(writer);
  EXPECT_TRUE(std::ranges::equal(header.origin.writer, writer->first.bytes));
  EXPECT_TRUE(std::ranges::any_of(header.origin.host, [](std::uint8_t byte) { return byte != 0; }));
}

TEST_F(Mirror, is_not_what_a_publisher_of_this_machine_is) {
  bus::Publisher publisher("topic", {.history = 1}, owner);
  publish_patterns(publisher, 1, 1);
  bus::Subscriber subscriber("topic", {}, borrower);
  const auto sample = subscriber.receive(kLong);
  ASSERT_TRUE(sample);
  EXPECT_EQ(sample->mirrored(), nullptr);
  EXPECT_EQ(sample->copy().mirrored(), nullptr);
}

TEST_F(Mirror, is_listed_with_its_machine) {
  const bus::Publisher publisher = mirror({.depth = 3, .history = 2, .reliable = true});
  const auto found = bus::list_publishers(borrower);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].machine, kOrigin.machine);
  EXPECT_EQ(found[0].origin, kOrigin.publisher);
  EXPECT_EQ(found[0].participant, owner->id());
  EXPECT_EQ(found[0].number, publisher.number());
  EXPECT_EQ(found[0].depth, 3U);
  EXPECT_EQ(found[0].history, 2U);
  EXPECT_TRUE(found[0].reliable);
}

TEST_F(Mirror, stands_for_a_publisher_that_has_a_name) {
  for (const link::MirrorOrigin& bad : {link::MirrorOrigin{"", kOrigin.publisher},
                                        {"robot", ""},
                                        {"robot", "camera"},
                                        {"robot", kOrigin.publisher + "x"},
                                        {std::string(256, 'r'), kOrigin.publisher}})
    EXPECT_EQ(code_of([&] { bus::Publisher("topic", {}, owner, bad); }), Code::kInvalidArgument);
}

TEST_F(Mirror, publishes_with_the_numbers_and_times_of_the_original) {
  bus::Publisher publisher = mirror();
  bus::Subscriber subscriber("topic", {}, borrower);
  join(subscriber);
  for (const std::uint64_t sequence : {0U, 1U, 5U, 6U})
    ASSERT_EQ(publish_as(publisher, sequence).outcome, Outcome::kDone);
  for (const std::uint64_t sequence : {0U, 1U, 5U, 6U}) {
    const auto sample = subscriber.receive(kLong);
    ASSERT_TRUE(sample);
    EXPECT_EQ(sample->header().sequence, sequence);
    EXPECT_EQ(sample->header().timestamp_ns, 1000 + sequence);
  }
  EXPECT_EQ(subscriber.stats().missed, 3U);
}

TEST_F(Mirror, begins_with_any_number) {
  bus::Publisher publisher = mirror();
  bus::Subscriber subscriber("topic", {}, borrower);
  join(subscriber);
  for (const std::uint64_t sequence : {200U, 203U}) (void)publish_as(publisher, sequence);
  EXPECT_EQ(numbers_now(subscriber), (Numbers{200, 203}));
  EXPECT_EQ(subscriber.stats().missed, 2U);
}

TEST_F(Mirror, begins_before_its_first_sample_if_it_knows_what_was_lost) {
  bus::Publisher publisher = mirror();
  bus::Subscriber subscriber("topic", {}, borrower);
  join(subscriber);
  publisher.begin_at(4);
  publisher.begin_at(0);  // it has begun
  (void)publish_as(publisher, 7);
  EXPECT_EQ(numbers_now(subscriber), Numbers{7});
  EXPECT_EQ(subscriber.stats().missed, 3U);
  bus::Subscriber late("topic", {}, borrower);
  join(late);
  (void)publish_as(publisher, 9);
  EXPECT_EQ(numbers_now(late), Numbers{9});
  EXPECT_EQ(late.stats().missed, 1U);
}

TEST_F(Mirror, counts_what_its_first_samples_have_lost_in_a_full_queue) {
  bus::Publisher publisher = mirror();
  bus::Subscriber subscriber("topic", {.depth = 2}, borrower);
  join(subscriber);
  for (std::uint64_t sequence = 100; sequence < 105; ++sequence)
    (void)publish_as(publisher, sequence);
  EXPECT_EQ(numbers_now(subscriber), (Numbers{103, 104}));
  EXPECT_EQ(subscriber.stats().missed, 3U);
}

TEST_F(Mirror, that_takes_the_place_of_another_costs_a_subscriber_what_was_lost_between) {
  bus::Publisher first = mirror();
  bus::Subscriber subscriber("topic", {}, borrower);
  join(subscriber);
  for (const std::uint64_t sequence : {200U, 201U}) (void)publish_as(first, sequence);
  EXPECT_EQ(numbers_now(subscriber).size(), 2U);
  break_off(first, subscriber);
  bus::Publisher between = mirror();  // has no samples
  join(subscriber);
  break_off(between, subscriber);
  bus::Publisher second = mirror();
  join(subscriber);
  bus::Subscriber late("topic", {}, borrower);
  join(late);
  (void)publish_as(second, 212);
  EXPECT_EQ(numbers_now(subscriber), Numbers{212});
  EXPECT_EQ(subscriber.stats().missed, 10U);
  EXPECT_EQ(numbers_now(late), Numbers{212});
  EXPECT_EQ(late.stats().missed, 0U);
}

TEST_F(Mirror, that_takes_the_place_of_another_before_its_last_samples_are_received_counts_alike) {
  bus::Publisher first = mirror({.history = 2});
  bus::Subscriber subscriber("topic", {}, borrower);
  join(subscriber);
  for (const std::uint64_t sequence : {200U, 201U, 202U}) (void)publish_as(first, sequence);
  break_off(first, subscriber);
  bus::Publisher second = mirror({.history = 2});
  (void)publish_as(second, 205);
  join(subscriber);
  EXPECT_EQ(numbers_now(subscriber).size(), 4U);
  EXPECT_EQ(subscriber.stats().missed, 2U);
}

TEST_F(Mirror, that_is_joined_after_it_has_begun_costs_what_came_before) {
  bus::Publisher first = mirror();
  bus::Subscriber subscriber("topic", {}, borrower);
  join(subscriber);
  (void)publish_as(first, 200);
  EXPECT_EQ(numbers_now(subscriber), Numbers{200});
  break_off(first, subscriber);
  bus::Publisher second = mirror();
  second.begin_at(205);
  (void)publish_as(second, 205);
  join(subscriber);
  (void)publish_as(second, 206);
  const Numbers numbers = numbers_now(subscriber);  // 205 may have come before it was joined
  ASSERT_FALSE(numbers.empty());
  EXPECT_EQ(subscriber.stats().missed, numbers.front() - 201);
}

TEST_F(Mirror, that_begins_with_a_smaller_number_has_begun_anew) {
  bus::Publisher first = mirror();
  bus::Subscriber subscriber("topic", {}, borrower);
  join(subscriber);
  (void)publish_as(first, 200);
  EXPECT_EQ(numbers_now(subscriber), Numbers{200});
  break_off(first, subscriber);
  bus::Publisher second = mirror();
  join(subscriber);
  for (const std::uint64_t sequence : {5U, 7U}) (void)publish_as(second, sequence);
  EXPECT_EQ(numbers_now(subscriber), (Numbers{5, 7}));
  EXPECT_EQ(subscriber.stats().missed, 1U);
}

TEST_F(Mirror, publishes_no_number_twice) {
  bus::Publisher publisher = mirror();
  ASSERT_EQ(publish_as(publisher, 5).sequence, 5U);
  for (const std::uint64_t sequence : {std::uint64_t{0}, std::uint64_t{5}, std::uint64_t{1} << 63U})
    EXPECT_EQ(code_of([&] { (void)publish_as(publisher, sequence); }), Code::kInvalidArgument);
  EXPECT_EQ(publish_as(publisher, 6).sequence, 6U);
}

TEST_F(Mirror, that_is_reliable_can_try_a_number_again) {
  bus::Publisher publisher = mirror({.depth = 1, .reliable = true});
  bus::Subscriber subscriber("topic", {.max_held = 1}, borrower);
  join(subscriber);
  ASSERT_EQ(publish_as(publisher, 3).outcome, Outcome::kDone);
  EXPECT_EQ(publish_as(publisher, 4, 0ns).outcome, Outcome::kTimedOut);
  EXPECT_TRUE(subscriber.receive(kLong));
  EXPECT_EQ(publish_as(publisher, 4).sequence, 4U);
}

TEST_F(Mirror, gives_a_history_with_gaps) {
  bus::Publisher publisher = mirror({.history = 3});
  for (const std::uint64_t sequence : {2U, 4U, 8U}) (void)publish_as(publisher, sequence);
  bus::Subscriber subscriber("topic", {}, borrower);
  join(subscriber);
  EXPECT_EQ(numbers_now(subscriber), (Numbers{2, 4, 8}));
  EXPECT_EQ(subscriber.stats().missed, 4U);
  bus::Subscriber shallow("topic", {.depth = 1}, borrower);
  join(shallow);
  EXPECT_EQ(numbers_now(shallow), Numbers{8});
  EXPECT_EQ(shallow.stats().missed, 0U);
}

TEST_F(Mirror, restarts_without_subscribers_alone) {
  bus::Publisher publisher = mirror({.history = 4});
  for (const std::uint64_t sequence : {10U, 11U}) (void)publish_as(publisher, sequence);
  std::optional<bus::Subscriber> subscriber(std::in_place, "topic", SubscriberOptions{}, borrower);
  join(*subscriber);
  EXPECT_FALSE(publisher.restart(3));
  subscriber.reset();
  ASSERT_TRUE(eventually([&] { return publisher.restart(3); }));
  (void)publish_as(publisher, 3);
  bus::Subscriber next("topic", {}, borrower);
  join(next);
  EXPECT_EQ(numbers_now(next), Numbers{3});
  EXPECT_EQ(next.stats().missed, 0U);
  publisher.close();
  EXPECT_FALSE(publisher.restart(0));
}

TEST_F(Mirror, that_is_broken_off_does_not_end_a_stream) {
  bus::Publisher first = mirror();
  bus::Subscriber subscriber("topic", {.end_of_stream = true}, borrower);
  join(subscriber);
  (void)publish_as(first, 0);
  first.break_off();
  EXPECT_EQ(publish_as(first, 1).outcome, Outcome::kClosed);
  bus::Sample sample;
  EXPECT_EQ(subscriber.receive(sample, kLong), Outcome::kDone);
  ASSERT_TRUE(eventually([&] { return subscriber.stats().publishers == 0; }));
  EXPECT_EQ(subscriber.receive(sample, 1ms), Outcome::kTimedOut);
  bus::Publisher second = mirror();
  join(subscriber);
  second.close();
  EXPECT_EQ(subscriber.receive(sample, kLong), Outcome::kClosed);
}

TEST_F(Mirror, that_is_broken_off_has_a_successor_before_its_last_sample_is_received) {
  bus::Publisher first = mirror();
  bus::Subscriber subscriber("topic", {.end_of_stream = true}, borrower);
  join(subscriber);
  (void)publish_as(first, 0);
  first.break_off();
  bus::Publisher second = mirror();
  ASSERT_EQ(second.wait_for_subscribers(1, kLong), Outcome::kDone);
  ASSERT_TRUE(eventually([&] { return subscriber.stats().publishers == 1; }));
  second.close();
  bus::Sample sample;
  EXPECT_EQ(subscriber.receive(sample, kLong), Outcome::kDone);
  EXPECT_EQ(subscriber.receive(sample, kLong), Outcome::kClosed);
}

TEST_F(Mirror, that_is_broken_off_after_it_cut_a_subscriber_off_has_one_successor) {
  bus::Publisher first = mirror({.depth = 1, .reliable = true, .lag_timeout = 1ms});
  bus::Subscriber subscriber("topic", {.end_of_stream = true}, borrower);
  join(subscriber);
  (void)publish_as(first, 0);
  (void)publish_as(first, 1);  // cuts it off
  ASSERT_TRUE(eventually([&] { return subscriber.stats().cut_off == 1; }));
  first.break_off();
  bus::Publisher second = mirror();
  bus::Sample sample;
  (void)subscriber.receive(sample, 1ms);
  join(subscriber);
  second.close();
  Outcome outcome{};
  do outcome = subscriber.receive(sample, kLong);
  while (outcome == Outcome::kDone);
  EXPECT_EQ(outcome, Outcome::kClosed);
}

TEST_F(Mirror, has_a_subscriber_of_it_alone) {
  bus::Publisher first("topic", {.history = 1}, owner);
  bus::Publisher second("topic", {.history = 1}, owner);
  publish_patterns(first, 1, 1);
  publish_patterns(second, 2, 1);
  bus::Subscriber subscriber("topic", {}, borrower,
                             bus::PublisherName{owner->id(), second.number()});
  EXPECT_EQ(next_seeds(subscriber, 1), seeds_from(2, 1));
  bus::Publisher third("topic", {.history = 1}, owner);
  bus::Subscriber all("topic", {}, borrower);  // is joined after `subscriber` has seen the third
  join(all, 3);
  EXPECT_EQ(subscriber.stats().publishers, 1U);
  EXPECT_EQ(first.subscribers(), 1U);
  EXPECT_EQ(second.subscribers(), 2U);
}

TEST_F(Mirror, tells_of_subscribers_that_come_and_go) {
  bus::Publisher publisher = mirror();
  const bus::Publisher other("other", {}, owner);
  const int fd = owner->subscribers_descriptor();
  EXPECT_TRUE(readable(fd));
  EXPECT_EQ(owner->take_changed_publishers(), std::vector<std::uint32_t>{});
  EXPECT_FALSE(readable(fd, 0ms));
  for (int i = 0; i < 2; ++i) {
    std::optional<bus::Subscriber> subscriber(std::in_place, "topic", SubscriberOptions{},
                                              borrower);
    ASSERT_TRUE(readable(fd));
    EXPECT_EQ(owner->take_changed_publishers(), std::vector{publisher.number()});
    EXPECT_FALSE(readable(fd, 0ms));
    EXPECT_EQ(publisher.subscribers(), 1U);
    subscriber.reset();
    ASSERT_TRUE(readable(fd));
    EXPECT_EQ(owner->take_changed_publishers(), std::vector{publisher.number()});
    EXPECT_EQ(publisher.subscribers(), 0U);
  }
}

TEST_F(Mirror, tells_of_publishers_that_come_and_go) {
  const int fd = borrower->domain_descriptor();
  const auto count = [&] {
    borrower->clear_domain_descriptor();
    return bus::list_publishers(borrower).size();
  };
  (void)count();
  for (int i = 0; i < 2; ++i) {
    std::optional<bus::Publisher> publisher(mirror());
    while (count() == 0) ASSERT_TRUE(readable(fd));
    publisher.reset();
    while (count() == 1) ASSERT_TRUE(readable(fd));
  }
}

}  // namespace
}  // namespace tensorbus
