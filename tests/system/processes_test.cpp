// Publishers and subscribers in processes of their own.

#include <memory>
#include <set>
#include <sstream>

#include "support.hpp"

namespace tensorbus {
namespace {

using namespace tensorbus::testing;

class Processes : public ::testing::Test {
 protected:
  const FreshDomain domain;
};

TEST_F(Processes, the_publisher_may_start_first) {
  Peer publisher(domain);
  ASSERT_EQ(publisher.ask("publisher topic"), "ok");
  Peer subscriber(domain);
  ASSERT_EQ(subscriber.ask("subscriber topic"), "ok");
  ASSERT_EQ(publisher.ask("await_subscribers 1"), "ok");
  ASSERT_EQ(publisher.ask("publish 3"), "ok");
  EXPECT_EQ(subscriber.ask("receive 3"), "ok 0 1 2");
}

TEST_F(Processes, the_subscriber_may_start_first) {
  Peer subscriber(domain);
  ASSERT_EQ(subscriber.ask("subscriber topic"), "ok");
  Peer publisher(domain);
  ASSERT_EQ(publisher.ask("publisher topic"), "ok");
  ASSERT_EQ(subscriber.ask("await_publishers 1"), "ok");
  ASSERT_EQ(publisher.ask("publish 3 copy"), "ok");
  EXPECT_EQ(subscriber.ask("receive 3"), "ok 0 1 2");
}

TEST_F(Processes, a_publisher_that_restarts_is_found_again) {
  Peer subscriber(domain);
  ASSERT_EQ(subscriber.ask("subscriber topic"), "ok");
  for (const char* end : {"leave", "abandon", "kill"}) {
    Peer publisher(domain);
    ASSERT_EQ(publisher.ask("publisher topic seed=5"), "ok");
    ASSERT_EQ(publisher.ask("await_subscribers 1"), "ok");
    ASSERT_EQ(publisher.ask("publish 2"), "ok");
    EXPECT_EQ(subscriber.ask("receive 2"), "ok 5 6");
    if (end == std::string("kill"))
      publisher.kill_and_wait();
    else
      publisher.ask(end);
  }
}

TEST_F(Processes, many_publishers_reach_many_subscribers) {
  std::vector<std::unique_ptr<Peer>> publishers;
  std::vector<std::unique_ptr<Peer>> subscribers;
  for (int i = 0; i < 3; ++i) {
    publishers.push_back(std::make_unique<Peer>(domain));
    publishers.back()->tell("publisher topic seed=" + std::to_string(100 * i));
    subscribers.push_back(std::make_unique<Peer>(domain));
    subscribers.back()->tell("subscriber topic");
  }
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(publishers[i]->reply(), "ok");
    EXPECT_EQ(subscribers[i]->reply(), "ok");
  }
  for (const auto& publisher : publishers) EXPECT_EQ(publisher->ask("await_subscribers 3"), "ok");
  for (const auto& publisher : publishers) EXPECT_EQ(publisher->ask("publish 2"), "ok");
  for (const auto& subscriber : subscribers) {
    std::istringstream reply(subscriber->ask("receive 6"));
    std::multiset<std::string> words;
    for (std::string word; reply >> word;) words.insert(word);
    EXPECT_EQ(words, (std::multiset<std::string>{"ok", "0", "1", "100", "101", "200", "201"}));
  }
}

TEST_F(Processes, a_reliable_stream_loses_nothing) {
  Peer publisher(domain);
  ASSERT_EQ(publisher.ask("publisher topic reliable depth=4"), "ok");
  const bus::ParticipantRef here = domain.join();
  bus::Subscriber subscriber("topic", {}, here);
  ASSERT_EQ(publisher.ask("await_subscribers 1"), "ok");
  publisher.tell("publish 5000 words=300");
  EXPECT_EQ(next_seeds(subscriber, 5000), seeds_from(0, 5000));
  EXPECT_EQ(publisher.reply(), "ok");
}

TEST_F(Processes, big_messages_cross_whole) {
  Peer publisher(domain);
  Peer subscriber(domain);
  ASSERT_EQ(publisher.ask("publisher topic"), "ok");
  ASSERT_EQ(subscriber.ask("subscriber topic"), "ok");
  ASSERT_EQ(publisher.ask("await_subscribers 1"), "ok");
  for (int round = 0; round < 2; ++round) {  // 96 MiB: a segment of its own
    ASSERT_EQ(publisher.ask("publish 1 words=12582912"), "ok");
    EXPECT_EQ(subscriber.ask("receive 1"), "ok " + std::to_string(round));
  }
  EXPECT_EQ(publisher.ask("used"), "ok 0");
}

TEST_F(Processes, a_late_subscriber_gets_history) {
  Peer publisher(domain);
  ASSERT_EQ(publisher.ask("publisher topic history=2"), "ok");
  ASSERT_EQ(publisher.ask("publish 5"), "ok");
  Peer subscriber(domain);
  ASSERT_EQ(subscriber.ask("subscriber topic"), "ok");
  EXPECT_EQ(subscriber.ask("receive 2"), "ok 3 4");
}

TEST_F(Processes, that_leave_leave_nothing_behind) {
  const bus::ParticipantRef here = domain.join();
  const auto files = domain.files();
  Peer publisher(domain);
  Peer subscriber(domain);
  ASSERT_EQ(publisher.ask("publisher topic"), "ok");
  ASSERT_EQ(subscriber.ask("subscriber topic"), "ok");
  ASSERT_EQ(publisher.ask("await_subscribers 1"), "ok");
  EXPECT_EQ(subscriber.ask("leave"), "ok");
  EXPECT_EQ(publisher.ask("leave"), "ok");
  EXPECT_EQ(domain.files(), files);
}

// Newcomers and their sweeps at the same time: nobody is taken for dead.
TEST_F(Processes, twenty_that_start_at_once_all_find_each_other) {
  std::vector<std::unique_ptr<Peer>> peers;
  for (int i = 0; i < 20; ++i) {
    peers.push_back(std::make_unique<Peer>(domain));
    peers.back()->tell("publisher topic");
    peers.back()->tell("subscriber topic");
  }
  for (const auto& peer : peers) {
    EXPECT_EQ(peer->reply(), "ok");
    EXPECT_EQ(peer->reply(), "ok");
  }
  for (const auto& peer : peers) peer->tell("await_subscribers 20");
  for (const auto& peer : peers) EXPECT_EQ(peer->reply(), "ok");
}

TEST_F(Processes, a_stopped_subscriber_holds_up_no_one) {
  Peer stopped(domain);
  ASSERT_EQ(stopped.ask("subscriber topic depth=2"), "ok");
  const bus::ParticipantRef here = domain.join();
  bus::Publisher publisher("topic", {}, here);
  bus::Subscriber subscriber("topic", {}, here);
  ASSERT_EQ(publisher.wait_for_subscribers(2, kLong), Outcome::kDone);
  stopped.signal(SIGSTOP);
  ASSERT_TRUE(stopped.wait_until_stopped());
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    publish_patterns(publisher, seed, 1);
    EXPECT_EQ(next_seeds(subscriber, 1), Seeds{seed});
  }
  EXPECT_EQ(publisher.stats().dropped_depth, 98U);
  stopped.signal(SIGCONT);
  EXPECT_EQ(stopped.ask("receive 2"), "ok 98 99");
}

}  // namespace
}  // namespace tensorbus
