// What a subscriber that watches the ends of its publishers learns: each end once, after the last
// sample.

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "tensorbus/bus/subscribe/receiver.hpp"
#include "tests/fakes/fake_owner.hpp"
#include "tests/unit/bus/test_support.hpp"

namespace tensorbus {
namespace {

using namespace tensorbus::testing;

// One end, without the process: all are of this one.
using OneEnd = std::pair<bus::PublisherName, bool>;
using Ends = std::vector<OneEnd>;

Ends take_ends(bus::Subscriber& subscriber) {
  Ends ends;
  for (const bus::PublisherEnd& end : subscriber.take_publisher_ends()) {
    EXPECT_EQ(end.pid, ::getpid());
    ends.emplace_back(end.publisher, end.closed);
  }
  return ends;
}

// Waits for ends; no sample comes before.
Ends next_ends(bus::Subscriber& subscriber, std::chrono::nanoseconds timeout = kLong) {
  bus::Sample sample;
  EXPECT_EQ(subscriber.receive(sample, timeout), Outcome::kInterrupted);
  return take_ends(subscriber);
}

class PublisherEnds : public ::testing::Test {
 protected:
  PublisherEnds() { subscriber.watch_publisher_ends(); }
  bus::Publisher joined(std::uint32_t publishers = 1, const PublisherOptions& options = {}) {
    bus::Publisher publisher("topic", options, owner);
    EXPECT_EQ(subscriber.wait_for_publishers(publishers, kLong), Outcome::kDone);
    return publisher;
  }
  bus::PublisherName name_of(const bus::Publisher& publisher) const {
    return {owner->id(), publisher.number()};
  }
  Ends closed(const bus::Publisher& publisher) const { return {{name_of(publisher), true}}; }
  // Waits until the subscriber knows that its publishers have ended.
  void all_ended() {
    ASSERT_TRUE(eventually([&] { return subscriber.stats().publishers == 0; }));
  }
  Outcome receive(std::chrono::nanoseconds timeout = kLong) {
    bus::Sample sample;
    return subscriber.receive(sample, timeout);
  }
  void nothing_more() {
    EXPECT_FALSE(subscriber.ready());
    EXPECT_EQ(receive(1ms), Outcome::kTimedOut);
    EXPECT_EQ(take_ends(subscriber), Ends());
  }

  const FreshDomain domain;
  const bus::ParticipantRef owner = domain.join();
  const bus::ParticipantRef borrower = domain.join();
  bus::Subscriber subscriber{"topic", {}, borrower};
};

TEST_F(PublisherEnds, come_after_the_last_sample) {
  bus::Publisher publisher = joined();
  publish_patterns(publisher, 0, 3);
  publisher.close();
  all_ended();
  EXPECT_EQ(take_ends(subscriber), Ends()) << "samples are left";
  EXPECT_EQ(next_seeds(subscriber, 3), seeds_from(0, 3));
  EXPECT_EQ(receive(), Outcome::kInterrupted);
  EXPECT_EQ(receive(), Outcome::kInterrupted) << "until they are taken";
  EXPECT_TRUE(subscriber.ready());
  EXPECT_EQ(take_ends(subscriber), closed(publisher));
  nothing_more();
}

TEST_F(PublisherEnds, make_it_ready_once_the_last_sample_was_taken) {
  bus::Publisher publisher = joined();
  publish_patterns(publisher, 0, 1);
  publisher.close();
  all_ended();
  EXPECT_EQ(next_seeds(subscriber, 1), seeds_from(0, 1));
  EXPECT_TRUE(subscriber.ready());
  EXPECT_EQ(take_ends(subscriber), closed(publisher));
  nothing_more();
}

TEST_F(PublisherEnds, end_a_receive_that_waits) {
  std::optional<bus::Publisher> publisher(joined());
  const Ends expected = closed(*publisher);
  std::thread thread([&] { publisher.reset(); });
  EXPECT_EQ(next_ends(subscriber), expected);
  thread.join();
}

TEST_F(PublisherEnds, come_before_the_samples_of_others) {
  bus::Publisher first = joined(1);
  bus::Publisher second = joined(2);
  publish_patterns(second, 5, 2);
  first.close();
  ASSERT_TRUE(eventually([&] { return subscriber.stats().publishers == 1; }));
  EXPECT_EQ(next_ends(subscriber), closed(first));
  EXPECT_EQ(next_seeds(subscriber, 2), seeds_from(5, 2));
  nothing_more();
  second.close();
  EXPECT_EQ(next_ends(subscriber), closed(second));
  nothing_more();
}

TEST_F(PublisherEnds, come_in_order_and_each_once) {
  Ends expected;
  std::vector<bus::Publisher> publishers;
  for (std::uint32_t i = 1; i <= 20; ++i) publishers.push_back(joined(i));
  for (std::size_t i = 0; i < publishers.size(); ++i) {
    expected.emplace_back(name_of(publishers[i]), i % 2 == 0);
    if (i % 2 == 0)
      publishers[i].close();
    else
      publishers[i].break_off();
    ASSERT_TRUE(
        eventually([&] { return subscriber.stats().publishers == publishers.size() - i - 1; }));
  }
  publishers.clear();
  EXPECT_EQ(next_ends(subscriber), expected);
  nothing_more();
}

TEST_F(PublisherEnds, are_those_of_a_participant_that_ends) {
  const FreshDomain fresh;
  bus::Subscriber other("topic", {}, fresh.join());
  other.watch_publisher_ends();
  Ends expected;
  {
    const bus::ParticipantRef brief = fresh.join();
    bus::Publisher publisher("topic", {}, brief);
    expected = {{{brief->id(), publisher.number()}, true}};
    ASSERT_EQ(other.wait_for_publishers(1, kLong), Outcome::kDone);
    publish_patterns(publisher, 0, 1);
  }
  EXPECT_EQ(next_seeds(other, 1), seeds_from(0, 1));
  EXPECT_EQ(next_ends(other), expected);
}

TEST_F(PublisherEnds, are_told_to_those_alone_that_watch) {
  bus::Subscriber plain("topic", {}, borrower);
  bus::Publisher publisher = joined();
  ASSERT_EQ(plain.wait_for_publishers(1, kLong), Outcome::kDone);
  publisher.close();
  EXPECT_EQ(next_ends(subscriber), closed(publisher));
  ASSERT_TRUE(eventually([&] { return plain.stats().publishers == 0; }));
  bus::Sample sample;
  EXPECT_EQ(plain.receive(sample, 1ms), Outcome::kTimedOut);
  EXPECT_EQ(take_ends(plain), Ends());
  plain.watch_publisher_ends();
  EXPECT_EQ(plain.receive(sample, 1ms), Outcome::kTimedOut) << "it came before";
  bus::Publisher next("topic", {}, owner);
  ASSERT_EQ(plain.wait_for_publishers(1, kLong), Outcome::kDone);
  plain.watch_publisher_ends();
  next.close();
  EXPECT_EQ(next_ends(plain), closed(next));
}

TEST_F(PublisherEnds, are_told_to_one_that_watches_late_if_samples_are_left) {
  bus::Subscriber late("topic", {}, borrower);
  bus::Publisher publisher = joined();
  ASSERT_EQ(late.wait_for_publishers(1, kLong), Outcome::kDone);
  publish_patterns(publisher, 0, 1);
  publisher.close();
  ASSERT_TRUE(eventually([&] { return late.stats().publishers == 0; }));
  late.watch_publisher_ends();
  EXPECT_EQ(next_seeds(late, 1), seeds_from(0, 1));
  EXPECT_EQ(next_ends(late), closed(publisher));
}

TEST_F(PublisherEnds, come_before_the_end_of_the_stream) {
  bus::Subscriber reader("topic", {.end_of_stream = true}, borrower);
  reader.watch_publisher_ends();
  bus::Publisher publisher = joined();
  ASSERT_EQ(reader.wait_for_publishers(1, kLong), Outcome::kDone);
  publish_patterns(publisher, 0, 2);
  publisher.close();
  EXPECT_EQ(next_seeds(reader, 2), seeds_from(0, 2));
  EXPECT_EQ(next_ends(reader), closed(publisher));
  EXPECT_EQ(reader.receive(kLong), std::nullopt);
  bus::Sample sample;
  EXPECT_EQ(reader.receive(sample, kLong), Outcome::kClosed);
}

TEST_F(PublisherEnds, come_between_batches) {
  bus::Publisher publisher = joined(1, {.depth = 8});
  publish_patterns(publisher, 0, 3);
  publisher.close();
  all_ended();
  std::array<bus::Sample, 8> samples;
  std::size_t count = 0;
  EXPECT_EQ(subscriber.receive_many(samples, count, kLong), Outcome::kDone);
  EXPECT_EQ(count, 3U);
  EXPECT_EQ(subscriber.receive_many(samples, count, kLong), Outcome::kInterrupted);
  EXPECT_EQ(count, 0U);
  EXPECT_EQ(take_ends(subscriber), closed(publisher));
}

TEST_F(PublisherEnds, make_the_descriptor_readable) {
  const int fd = subscriber.event_descriptor();
  const auto readable = [&](std::chrono::milliseconds limit) {
    pollfd ready{fd, POLLIN, 0};
    return ::poll(&ready, 1, static_cast<int>(limit.count())) == 1;
  };
  bus::Publisher publisher = joined();
  EXPECT_TRUE(eventually([&] { return !subscriber.try_receive() && !readable(0ms); }));
  publisher.close();
  bus::Sample sample;
  do {
    ASSERT_TRUE(readable(kLong));
  } while (subscriber.try_receive(sample) != Outcome::kInterrupted);
  EXPECT_EQ(take_ends(subscriber), closed(publisher));
  EXPECT_TRUE(eventually([&] { return !subscriber.try_receive() && !readable(0ms); }));
}

TEST_F(PublisherEnds, of_a_closed_subscriber_are_none) {
  bus::Publisher publisher = joined();
  bus::Publisher other = joined(2);
  publisher.close();
  ASSERT_TRUE(eventually([&] { return subscriber.stats().publishers == 1; }));
  subscriber.close();
  EXPECT_EQ(receive(), Outcome::kClosed);
  EXPECT_EQ(take_ends(subscriber), closed(publisher)) << "those that came before";
  other.close();
  EXPECT_EQ(receive(), Outcome::kClosed);
  EXPECT_EQ(take_ends(subscriber), Ends());
}

class CutOffEnds : public PublisherEnds {
 protected:
  // A publisher that has cut the subscriber off.
  bus::Publisher cut_off(std::uint32_t publishers = 1) {
    bus::Publisher publisher =
        joined(publishers, {.depth = 2, .reliable = true, .lag_timeout = 20ms});
    publish_patterns(publisher, 0, 3);
    EXPECT_TRUE(eventually([&] { return subscriber.stats().cut_off == 1; }));
    return publisher;
  }
};

TEST_F(CutOffEnds, are_none_until_the_publisher_closes) {
  bus::Publisher publisher = cut_off();
  EXPECT_EQ(receive(1ms), Outcome::kTimedOut);
  ASSERT_EQ(publisher.wait_for_subscribers(1, kLong), Outcome::kDone);
  publish_patterns(publisher, 3, 1);
  EXPECT_EQ(next_seeds(subscriber, 1), seeds_from(3, 1));
  EXPECT_EQ(take_ends(subscriber), Ends());
  publisher.close();
  EXPECT_EQ(next_ends(subscriber), closed(publisher));
  nothing_more();
}

TEST_F(CutOffEnds, come_if_the_publisher_is_not_joined_again) {
  bus::Publisher other = joined(1);
  bus::Publisher publisher = cut_off(2);
  publisher.close();
  EXPECT_EQ(next_ends(subscriber), closed(publisher)) << "another publisher lives";
  nothing_more();
  other.close();
  EXPECT_EQ(next_ends(subscriber), closed(other));
  nothing_more();
}

TEST_F(CutOffEnds, come_once_whenever_the_publisher_closes) {
  for (int i = 0; i < 5; ++i) {
    bus::Subscriber reader("again", {.depth = 1}, borrower);
    reader.watch_publisher_ends();
    bus::Publisher publisher("again", {.depth = 1, .reliable = true, .lag_timeout = 1ms}, owner);
    ASSERT_EQ(reader.wait_for_publishers(1, kLong), Outcome::kDone);
    publish_patterns(publisher, 0, 2);
    bus::Sample sample;
    if (i % 2 != 0) {
      EXPECT_NE(reader.try_receive(sample), Outcome::kClosed);
    }
    publisher.close();  // perhaps while the subscriber is joined again
    Ends ends;
    ASSERT_TRUE(eventually([&] {
      while (reader.try_receive(sample) == Outcome::kDone) sample = bus::Sample();
      for (const OneEnd& end : take_ends(reader)) ends.push_back(end);
      return !ends.empty();
    }));
    EXPECT_EQ(reader.receive(sample, 5ms), Outcome::kTimedOut);
    EXPECT_EQ(ends, closed(publisher));
  }
}

// An owner whose messages the test sends.
class FakeEnds : public bus::testing::FakeOwner {
 protected:
  FakeEnds() { subscriber->watch_publisher_ends(); }
  // The subscriber's participant learns of the death at once.
  void dies() {
    peer.reset();
    ASSERT_TRUE(eventually([&] { return borrower->context().loop.run_now([] {}, true); }));
  }
  void cuts_off() {
    peer->channel.send(link::Ended{number, 1});
    ASSERT_TRUE(eventually([&] { return subscriber->stats().cut_off == 1; }));
  }
  void closes() {
    memory->publisher_closed()->store(1);
    peer->channel.send(link::Ended{number, 0});
  }
  Ends one(bool closed) const { return {{{self, 1}, closed}}; }
  void nothing_more() {
    bus::Sample sample;
    EXPECT_EQ(subscriber->receive(sample, 5ms), Outcome::kTimedOut);
    EXPECT_EQ(take_ends(*subscriber), Ends());
  }
  // The subscriber asks to join again.
  void is_joined_again() {
    EXPECT_FALSE(subscriber->try_receive());
    auto type = peer->next();
    while (type && type != link::ControlType::kSubscribe) type = peer->next();
    ASSERT_EQ(type, link::ControlType::kSubscribe);
    number = peer->received.as<link::Subscribe>().link;
  }
  void accepts_again() {
    memory.emplace(link::Geometry::for_link(4, 4));
    peer->channel.send(link::Accepted{.link = number, .slots = 4, .returns = 8, .max_held = 4},
                       link::testing::fds_of(platform::duplicate(memory->memfd().get())));
    ASSERT_EQ(subscriber->wait_for_publishers(1, kLong), Outcome::kDone);
  }
};

TEST_F(FakeEnds, that_dies_is_one_end) {
  accept();
  dies();
  EXPECT_EQ(next_ends(*subscriber), one(false));
  nothing_more();
}

TEST_F(FakeEnds, that_closes_and_dies_is_one_end) {
  accept();
  closes();
  dies();
  EXPECT_EQ(next_ends(*subscriber), one(true));
  nothing_more();
}

TEST_F(FakeEnds, that_has_not_accepted_is_no_end) {
  greet();
  dies();
  nothing_more();
}

TEST_F(FakeEnds, that_refuses_is_no_end) {
  greet();
  peer->channel.send(link::Refused{number, static_cast<std::uint32_t>(Code::kClosed), "closed"});
  ASSERT_TRUE(eventually([&] { return subscriber->stats().refused == 1; }));
  dies();
  nothing_more();
}

TEST_F(FakeEnds, that_cuts_off_and_dies_is_one_end) {
  accept();
  cuts_off();
  nothing_more();
  dies();
  EXPECT_EQ(next_ends(*subscriber), one(false));
  nothing_more();
}

TEST_F(FakeEnds, that_cuts_off_and_closes_is_one_end) {
  accept();
  cuts_off();
  nothing_more();
  closes();
  EXPECT_EQ(next_ends(*subscriber), one(true));
  dies();
  nothing_more();
}

// The subscriber may see in its memory that the publisher has closed before the message comes.
TEST_F(FakeEnds, that_closes_silently_after_it_cut_off_is_one_end) {
  accept();
  cuts_off();
  nothing_more();
  memory->publisher_closed()->store(1);
  EXPECT_EQ(next_ends(*subscriber), one(true));
  closes();
  dies();
  nothing_more();
}

TEST_F(FakeEnds, that_cuts_off_and_is_joined_again_is_one_end) {
  accept();
  cuts_off();
  is_joined_again();
  nothing_more();
  accepts_again();
  nothing_more();
  dies();
  EXPECT_EQ(next_ends(*subscriber), one(false));
  nothing_more();
}

TEST_F(FakeEnds, that_dies_before_it_accepts_again_is_one_end) {
  accept();
  cuts_off();
  is_joined_again();
  dies();
  EXPECT_EQ(next_ends(*subscriber), one(false));
  nothing_more();
}

TEST_F(FakeEnds, that_cuts_off_and_dies_with_a_sample_set_aside_is_one_end) {
  accept();
  ring.push(0, entry_of(0, 64));  // of a segment that does not come
  EXPECT_FALSE(subscriber->try_receive());
  cuts_off();
  dies();
  EXPECT_EQ(next_ends(*subscriber), one(false));
  EXPECT_EQ(subscriber->stats().bad, 1U);
  nothing_more();
}

TEST_F(FakeEnds, that_writes_invalid_data_is_one_end) {
  accept();
  for (link::Slot& slot : memory->slots()) slot.state = ~std::uint64_t{0};
  bus::Sample sample;
  (void)subscriber->try_receive(sample);
  dies();
  EXPECT_EQ(next_ends(*subscriber), one(false));
  nothing_more();
}

}  // namespace
}  // namespace tensorbus
