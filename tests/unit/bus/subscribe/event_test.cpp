// event_descriptor(), as poll(), epoll and event loops use it.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "tensorbus/bus/subscribe/receiver.hpp"
#include "tensorbus/platform/waiting/notifier.hpp"
#include "tests/unit/bus/test_support.hpp"

namespace tensorbus {
namespace {

using namespace tensorbus::testing;

class EventDescriptor : public ::testing::Test {
 protected:
  // With the segment, which follows the first sample.
  void connect() {
    ASSERT_EQ(publisher.wait_for_subscribers(1, kLong), Outcome::kDone);
    publish_patterns(publisher, 99, 1);
    ASSERT_EQ(next_seeds(subscriber, 1), Seeds{99});
  }
  static bool readable(int fd, std::chrono::milliseconds limit) {
    pollfd ready{fd, POLLIN, 0};
    return ::poll(&ready, 1, static_cast<int>(limit.count())) == 1;
  }
  // As an event loop does it: wait, then take all there is.
  Seeds by_polling(std::size_t count) {
    Seeds seeds;
    while (seeds.size() < count && readable(subscriber.event_descriptor(), kLong))
      for (const auto& seed : seeds_now(subscriber)) seeds.push_back(seed);
    return seeds;
  }

  const FreshDomain domain;
  const bus::ParticipantRef owner = domain.join();
  const bus::ParticipantRef borrower = domain.join();
  bus::Publisher publisher{"topic", {.depth = 1024}, owner};
  bus::Subscriber subscriber{"topic", {}, borrower};
};

TEST_F(EventDescriptor, is_readable_when_there_is_something_and_only_then) {
  connect();
  const int fd = subscriber.event_descriptor();
  EXPECT_TRUE(readable(fd, 0ms)) << "there may have been something before";
  // The publisher notifies once when it gets the notifier, since a sample may have come before.
  EXPECT_TRUE(eventually([&] { return !subscriber.try_receive() && !readable(fd, 0ms); }));
  // The publisher learns of the descriptor by and by; the first sample is not missed either way.
  EXPECT_TRUE(eventually([&] {
    publish_patterns(publisher, 0, 1);
    const bool told = readable(fd, 1ms);
    seeds_now(subscriber);
    return told;
  }));
  EXPECT_FALSE(readable(fd, 0ms));
  publish_patterns(publisher, 1, 1);
  EXPECT_TRUE(readable(fd, kLong));
  EXPECT_EQ(seeds_now(subscriber), Seeds{1});
  EXPECT_FALSE(readable(fd, 0ms));
}

std::set<int> stream_sockets() {
  std::set<int> found;
  for (int fd = 0; fd < 1000; ++fd)
    if (platform::is_notifier_sender(fd)) found.insert(fd);
  return found;
}

// A child that was forked a moment ago has the descriptor of a notifier, too: then closing it takes
// it off no poller. Another descriptor of the same socket stands for the child here.
TEST_F(EventDescriptor, leaves_alone_what_gets_the_number_of_a_notifier_that_is_gone) {
  connect();
  const std::set<int> before = stream_sockets();
  (void)subscriber.event_descriptor();
  EXPECT_FALSE(subscriber.try_receive());
  std::map<int, platform::Fd> of_child;
  for (const int fd : stream_sockets())
    if (!before.contains(fd)) of_child.emplace(fd, platform::duplicate(fd));
  ASSERT_FALSE(of_child.empty());
  // Of the program, made while the numbers are still taken.
  std::map<int, std::array<platform::Fd, 2>> pairs;
  for (const auto& [number, copy] : of_child) {
    std::array<int, 2> ends{};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
    pairs[number] = {platform::Fd(ends[0]), platform::Fd(ends[1])};
  }
  publisher.close();
  ASSERT_TRUE(eventually([&] {
    EXPECT_FALSE(subscriber.try_receive());
    return subscriber.stats().publishers == 0;
  }));
  std::vector<std::pair<int, platform::Fd>> others;  // of the program, which gets these numbers
  for (auto& [number, ends] : pairs) {
    if (::fcntl(number, F_GETFD) >= 0) continue;
    ASSERT_EQ(::dup2(ends[0].get(), number), number);
    others.emplace_back(number, std::move(ends[1]));
    ASSERT_EQ(::send(others.back().second.get(), "x", 1, MSG_NOSIGNAL), 1);
  }
  ASSERT_FALSE(others.empty());
  for (const auto& [number, copy] : of_child) (void)::send(copy.get(), "r", 1, MSG_NOSIGNAL);
  EXPECT_FALSE(subscriber.try_receive());
  for (const auto& [number, end] : others) {
    char byte = 0;
    EXPECT_EQ(::recv(number, &byte, 1, MSG_DONTWAIT), 1) << "somebody has read it away";
    ::close(number);
  }
}

TEST_F(EventDescriptor, stays_readable_until_nothing_is_left) {
  connect();
  const int fd = subscriber.event_descriptor();
  publish_patterns(publisher, 0, 2);
  EXPECT_TRUE(readable(fd, kLong));
  EXPECT_TRUE(subscriber.try_receive());
  EXPECT_TRUE(readable(fd, 0ms));
  EXPECT_TRUE(subscriber.try_receive());
  EXPECT_FALSE(subscriber.try_receive());
  EXPECT_FALSE(readable(fd, 0ms));
}

TEST_F(EventDescriptor, made_before_the_publisher_is_found_works_the_same) {
  const int fd = subscriber.event_descriptor();
  EXPECT_FALSE(subscriber.try_receive());
  ASSERT_EQ(publisher.wait_for_subscribers(1, kLong), Outcome::kDone);
  publish_patterns(publisher, 0, 1);
  EXPECT_TRUE(readable(fd, kLong));
  EXPECT_EQ(by_polling(1), Seeds{0});
}

TEST_F(EventDescriptor, tells_of_history) {
  bus::Publisher kept("kept", {.history = 2}, owner);
  publish_patterns(kept, 5, 2);
  bus::Subscriber late("kept", {}, borrower);
  const int fd = late.event_descriptor();
  Seeds seeds;
  while (seeds.size() < 2 && readable(fd, kLong))
    for (const auto& seed : seeds_now(late)) seeds.push_back(seed);
  EXPECT_EQ(seeds, seeds_from(5, 2));
}

// Of a reliable publisher, by whoever takes so many samples each time that the descriptor is
// readable; the last look of those who take all finds nothing.
class Streamed : public EventDescriptor {
 protected:
  template <typename Take>
  void take_by(Take take) {
    connect();
    (void)subscriber.event_descriptor();
    constexpr std::uint64_t kSamples = kSanitized ? 2000 : 20'000;
    bus::Publisher reliable("stream", {.depth = 4, .reliable = true}, owner);
    bus::Subscriber polled("stream", {}, borrower);
    const int fd = polled.event_descriptor();
    ASSERT_EQ(reliable.wait_for_subscribers(1, kLong), Outcome::kDone);
    std::thread thread([&] { publish_patterns(reliable, 0, kSamples); });
    Seeds seeds;
    while (seeds.size() < kSamples && readable(fd, kLong))
      for (const auto& seed : take(polled)) seeds.push_back(seed);
    thread.join();
    EXPECT_EQ(seeds, seeds_from(0, kSamples));
  }
};

TEST_F(Streamed, all_at_a_time_misses_nothing) {
  take_by([](bus::Subscriber& polled) { return seeds_now(polled); });
}

TEST_F(Streamed, one_at_a_time_misses_nothing) {
  take_by([](bus::Subscriber& polled) {
    bus::Sample sample;
    return polled.try_receive(sample) == Outcome::kDone ? Seeds{seed_of(sample)} : Seeds{};
  });
}

TEST_F(EventDescriptor, becomes_readable_on_close) {
  connect();
  const int fd = subscriber.event_descriptor();
  EXPECT_FALSE(subscriber.try_receive());
  std::thread closer([&] { subscriber.close(); });
  EXPECT_TRUE(readable(fd, kLong));
  closer.join();
  bus::Sample sample;
  EXPECT_EQ(subscriber.try_receive(sample), Outcome::kClosed);
}

TEST_F(EventDescriptor, is_armed_by_a_ready_that_says_no) {
  connect();
  const int fd = subscriber.event_descriptor();
  EXPECT_TRUE(readable(fd, 0ms));
  EXPECT_FALSE(subscriber.ready());
  EXPECT_FALSE(readable(fd, 0ms));
  EXPECT_TRUE(eventually([&] {  // that the publisher has learned of the descriptor
    publish_patterns(publisher, 1, 1);
    const bool told = readable(fd, 1ms);
    EXPECT_TRUE(subscriber.ready());
    seeds_now(subscriber);
    return told;
  }));
  EXPECT_FALSE(subscriber.ready());
  publish_patterns(publisher, 2, 1);
  EXPECT_TRUE(readable(fd, kLong));
  EXPECT_TRUE(subscriber.ready());
  EXPECT_EQ(seeds_now(subscriber), Seeds{2}) << "ready() takes nothing";
}

TEST_F(EventDescriptor, and_ready_tell_of_the_limit_of_held_samples_and_of_close) {
  bus::Subscriber one("topic", {.max_held = 1}, borrower);
  ASSERT_EQ(one.wait_for_publishers(1, kLong), Outcome::kDone);
  publish_patterns(publisher, 0, 2);
  const auto held = one.receive(kLong);
  EXPECT_TRUE(one.ready());
  EXPECT_TRUE(readable(one.event_descriptor(), 0ms));
  one.close();
  EXPECT_TRUE(one.ready());
}

TEST_F(EventDescriptor, a_receive_that_parks_works_beside_it) {
  connect();
  (void)subscriber.event_descriptor();
  std::thread thread([&] { publish_patterns(publisher, 0, 100); });
  EXPECT_EQ(next_seeds(subscriber, 100), seeds_from(0, 100));
  thread.join();
}

// A recorder looks by itself, and is not woken for each sample.
TEST_F(EventDescriptor, of_a_lazy_subscriber_is_readable_when_half_of_what_may_wait_does) {
  bus::Publisher four{"four", {.depth = 4}, owner};
  bus::Subscriber lazy{"four", {}, borrower};
  const int fd = lazy.event_descriptor();
  ASSERT_EQ(four.wait_for_subscribers(1, kLong), Outcome::kDone);
  publish_patterns(four, 99, 1);
  ASSERT_EQ(next_seeds(lazy, 1), Seeds{99});
  // The publisher learns of the descriptor by and by.
  ASSERT_TRUE(eventually([&] {
    const bool quiet = !lazy.try_receive() && !readable(fd, 0ms);
    publish_patterns(four, 0, 1);
    const bool told = quiet && readable(fd, 1ms);
    seeds_now(lazy);
    return told;
  }));
  lazy.receiver().notify_lazily(true);
  ASSERT_TRUE(eventually([&] { return !lazy.try_receive() && !readable(fd, 0ms); }));
  for (std::uint64_t round = 0; round < 3; ++round) {
    publish_patterns(four, 1, 1);
    EXPECT_FALSE(readable(fd, 0ms));
    publish_patterns(four, 2, 1);
    EXPECT_TRUE(readable(fd, 0ms));
    EXPECT_EQ(seeds_now(lazy), (Seeds{1, 2}));
    EXPECT_FALSE(readable(fd, 0ms));
  }
  publish_patterns(four, 3, 1);
  EXPECT_EQ(seeds_now(lazy), Seeds{3}) << "a look finds what nobody was told of";
  lazy.receiver().notify_lazily(false);
  EXPECT_TRUE(readable(fd, 0ms)) << "there may be something";
  EXPECT_TRUE(seeds_now(lazy).empty());
  EXPECT_FALSE(readable(fd, 0ms));
  publish_patterns(four, 4, 1);
  EXPECT_TRUE(readable(fd, kLong));
  EXPECT_EQ(seeds_now(lazy), Seeds{4});
  lazy.receiver().notify_lazily(true);
  EXPECT_TRUE(seeds_now(lazy).empty());
  publish_patterns(four, 5, 1);
  EXPECT_EQ(next_seeds(lazy, 1), Seeds{5});
  EXPECT_FALSE(readable(fd, 0ms)) << "whoever looks will look again";
  lazy.receiver().notify_lazily(false);
  EXPECT_TRUE(readable(fd, 0ms)) << "there may be more, and no look has found nothing";
  EXPECT_TRUE(seeds_now(lazy).empty());
  publish_patterns(four, 6, 1);
  EXPECT_TRUE(readable(fd, kLong));
}

}  // namespace
}  // namespace tensorbus
