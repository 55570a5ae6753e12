// What the death of one process leaves to the others.

#include <poll.h>

#include "support.hpp"

namespace tensorbus {
namespace {

using namespace tensorbus::testing;

class Death : public ::testing::Test {
 protected:
  // A child of `peer` that lives on for as long as this.
  struct Orphan {
    explicit Orphan(Peer& peer, const std::string& how = "fork") {
      const std::string reply = peer.ask(how);
      EXPECT_EQ(reply.substr(0, 3), "ok ");
      pid = std::stoi(reply.substr(3));
    }
    ~Orphan() { ::kill(pid, SIGKILL); }
    pid_t pid = 0;
  };

  const FreshDomain domain;
  const bus::ParticipantRef here = domain.join();
};

class DeadPublisher : public Death {
 protected:
  DeadPublisher() {
    EXPECT_EQ(peer.ask("publisher topic seed=1"), "ok");
    EXPECT_EQ(peer.ask("await_subscribers 1"), "ok");
    EXPECT_EQ(subscriber.wait_for_publishers(1, kLong), Outcome::kDone);
  }
  bool gone() {
    return eventually([&] {
      (void)subscriber.try_receive();
      return subscriber.stats().publishers == 0;
    });
  }

  bus::Subscriber subscriber{"topic", {}, here};
  Peer peer{domain};
};

TEST_F(DeadPublisher, leaves_what_was_received_unchanged) {
  ASSERT_EQ(peer.ask("publish 1 words=1000000"), "ok");
  const auto sample = subscriber.receive(kLong);
  ASSERT_TRUE(sample);
  peer.kill_and_wait();
  EXPECT_TRUE(gone());
  EXPECT_EQ(seed_of(*sample), 1U);
  subscriber.close();
  EXPECT_EQ(seed_of(*sample), 1U);
}

TEST_F(DeadPublisher, leaves_what_was_not_yet_received) {
  ASSERT_EQ(peer.ask("publish 5 words=10000"), "ok");
  peer.kill_and_wait();
  EXPECT_EQ(next_seeds(subscriber, 5), seeds_from(1, 5));
  EXPECT_TRUE(gone());
}

TEST_F(DeadPublisher, leaves_no_files_to_its_subscribers) {
  const auto marker_is_there = [&] {
    for (const std::string& name : domain.files())
      if (name.ends_with(".pub")) return true;
    return false;
  };
  EXPECT_TRUE(marker_is_there());
  peer.kill_and_wait();
  EXPECT_TRUE(eventually([&] { return !marker_is_there(); }));
}

TEST_F(DeadPublisher, is_noticed_though_a_child_of_it_lives_on) {
  const Orphan orphan(peer);
  peer.kill_and_wait();
  EXPECT_TRUE(gone());
}

TEST_F(DeadPublisher, ends_no_wait_before_its_time) {
  peer.kill_and_wait();
  EXPECT_TRUE(gone());
  bus::Sample sample;
  EXPECT_EQ(subscriber.receive(sample, 5ms), Outcome::kTimedOut);
  bus::Publisher next("topic", {}, here);
  ASSERT_EQ(next.wait_for_subscribers(1, kLong), Outcome::kDone);
  publish_patterns(next, 9, 1);
  EXPECT_EQ(next_seeds(subscriber, 1), Seeds{9});
}

class DeadSubscriber : public Death {
 protected:
  void connect() {
    EXPECT_EQ(peer.ask("subscriber topic"), "ok");
    EXPECT_EQ(publisher.wait_for_subscribers(1, kLong), Outcome::kDone);
  }
  bool all_is_back() {
    return eventually([&] { return used_bytes(here, {&publisher}) == 0; });
  }

  bus::Publisher publisher{"topic", {}, here};
  Peer peer{domain};
};

TEST_F(DeadSubscriber, gives_back_what_it_held_and_what_waited_for_it) {
  connect();
  publish_patterns(publisher, 0, 6);
  ASSERT_EQ(peer.ask("receive 3 keep"), "ok 0 1 2");
  EXPECT_GT(used_bytes(here, {&publisher}), 0U);
  peer.kill_and_wait();
  EXPECT_TRUE(all_is_back());
  EXPECT_EQ(publisher.subscribers(), 0U);
  EXPECT_EQ(publisher.stats().bytes_in_flight, 0U);
}

TEST_F(DeadSubscriber, leaves_what_it_held_to_a_child_of_it_that_lives_on) {
  connect();
  publish_patterns(publisher, 0, 6);
  ASSERT_EQ(peer.ask("receive 3 keep"), "ok 0 1 2");
  const Orphan orphan(peer, "fork_reader");
  peer.kill_and_wait();
  EXPECT_TRUE(eventually([&] { return publisher.subscribers() == 0; }));
  for (std::uint64_t seed = 50; seed < 150; ++seed) publish_pattern(publisher, seed);
  EXPECT_GT(used_bytes(here, {&publisher}), 0U);
  ::kill(orphan.pid, SIGUSR1);
  EXPECT_EQ(peer.reply(), "ok 0 1 2");
  EXPECT_TRUE(all_is_back()) << "the child has ended";
  EXPECT_EQ(publisher.stats().bytes_in_flight, 0U);
}

TEST_F(DeadSubscriber, gives_back_what_waited_for_it_though_a_child_of_it_lives_on) {
  connect();
  ASSERT_EQ(peer.ask("receive 0 keep"), "ok");
  publish_patterns(publisher, 0, 6);
  const Orphan orphan(peer);
  peer.kill_and_wait();
  EXPECT_TRUE(all_is_back());
}

TEST_F(DeadSubscriber, gives_back_all_though_a_child_lives_on_that_it_forked_before) {
  const Orphan orphan(peer);
  connect();
  publish_patterns(publisher, 0, 6);
  ASSERT_EQ(peer.ask("receive 3 keep"), "ok 0 1 2");
  peer.kill_and_wait();
  EXPECT_TRUE(all_is_back());
}

TEST_F(DeadSubscriber, leaves_what_it_had_let_go_to_a_child_of_it_that_lives_on) {
  connect();
  publish_patterns(publisher, 0, 6);
  ASSERT_EQ(peer.ask("receive 3 keep"), "ok 0 1 2");
  const Orphan orphan(peer, "fork_reader");
  ASSERT_EQ(peer.ask("let_go"), "ok");
  ASSERT_EQ(peer.ask("close_subscribers"), "ok");
  peer.kill_and_wait();
  EXPECT_TRUE(eventually([&] { return publisher.subscribers() == 0; }));
  for (std::uint64_t seed = 50; seed < 150; ++seed) publish_pattern(publisher, seed);
  ::kill(orphan.pid, SIGUSR1);
  EXPECT_EQ(peer.reply(), "ok 0 1 2");
  EXPECT_TRUE(all_is_back());
}

TEST_F(DeadSubscriber, that_had_attached_leaves_it_to_a_child_of_it_that_lives_on) {
  Peer owner(domain);
  const std::string shared = owner.ask("share 7 words=1000");
  ASSERT_EQ(shared.substr(0, 3), "ok ");
  ASSERT_EQ(peer.ask("attach " + shared.substr(3)), "ok 7");
  const Orphan orphan(peer, "fork_reader");
  peer.kill_and_wait();
  ASSERT_EQ(owner.ask("close_shares"), "ok");
  EXPECT_NE(owner.ask("used"), "ok 0");
  ::kill(orphan.pid, SIGUSR1);
  EXPECT_EQ(peer.reply(), "ok 7");
  EXPECT_TRUE(eventually([&] { return owner.ask("used") == "ok 0"; }));
}

TEST_F(DeadSubscriber, that_left_in_order_gives_back_what_it_let_go) {
  connect();
  publish_patterns(publisher, 0, 6);
  ASSERT_EQ(peer.ask("receive 3 keep"), "ok 0 1 2");
  ASSERT_EQ(peer.ask("close_subscribers"), "ok");
  EXPECT_TRUE(eventually([&] { return publisher.subscribers() == 0; }));
  EXPECT_GT(used_bytes(here, {&publisher}), 0U) << "it still holds three";
  for (std::uint64_t seed = 50; seed < 60; ++seed) publish_pattern(publisher, seed);
  EXPECT_EQ(peer.ask("check_kept"), "ok 0 1 2");
  ASSERT_EQ(peer.ask("let_go"), "ok");
  EXPECT_TRUE(all_is_back());
}

TEST_F(DeadSubscriber, in_the_middle_of_a_batch_gives_all_of_it_back) {
  Peer dying(domain, "receive.popped:3:kill");
  ASSERT_EQ(dying.ask("subscriber topic"), "ok");
  ASSERT_EQ(publisher.wait_for_subscribers(1, kLong), Outcome::kDone);
  publish_patterns(publisher, 0, 6);
  EXPECT_EQ(dying.ask("receive_many"), "dead");
  EXPECT_TRUE(all_is_back());
}

TEST_F(DeadSubscriber, in_the_middle_of_giving_a_batch_back_frees_its_publisher) {
  Peer dying(domain, "release.token_written:3:kill");
  bus::Publisher reliable("reliable", {.depth = 6, .reliable = true}, here);
  ASSERT_EQ(dying.ask("subscriber reliable"), "ok");
  ASSERT_EQ(reliable.wait_for_subscribers(1, kLong), Outcome::kDone);
  for (std::int64_t number = 0; number < 6; ++number) reliable.publish(Value(number), {});
  std::thread thread([&] { EXPECT_EQ(dying.ask("receive_many"), "dead"); });
  for (std::int64_t number = 0; number < 1000; ++number)
    ASSERT_EQ(reliable.publish(Value(number), {}).outcome, Outcome::kDone);
  thread.join();
  EXPECT_TRUE(eventually([&] { return reliable.subscribers() == 0; }));
}

TEST_F(DeadSubscriber, frees_a_publisher_that_waits_for_it) {
  bus::Publisher reliable("reliable", {.depth = 2, .reliable = true}, here);
  ASSERT_EQ(peer.ask("subscriber reliable"), "ok");
  ASSERT_EQ(reliable.wait_for_subscribers(1, kLong), Outcome::kDone);
  publish_patterns(reliable, 0, 2);
  Outcome outcome = Outcome::kTimedOut;
  std::thread thread([&] { outcome = publish_pattern(reliable, 2).outcome; });
  EXPECT_TRUE(eventually([&] { return reliable.stats().waiting == 1; }));
  peer.kill_and_wait();
  thread.join();
  EXPECT_EQ(outcome, Outcome::kDone);
}

TEST_F(DeadSubscriber, costs_the_others_nothing) {
  connect();
  bus::Subscriber other("topic", {}, here);
  ASSERT_EQ(publisher.wait_for_subscribers(2, kLong), Outcome::kDone);
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    if (seed == 100) peer.signal(SIGKILL);
    publish_patterns(publisher, seed, 1);
    EXPECT_EQ(next_seeds(other, 1), Seeds{seed});
  }
  EXPECT_TRUE(eventually([&] { return publisher.subscribers() == 1; }));
}

TEST_F(DeadSubscriber, leaves_no_descriptor_behind) {
  publish_patterns(publisher, 0, 1);  // the arena has its segment now
  const std::size_t before = open_descriptors();
  for (int round = 0; round < 5; ++round) {
    Peer passing(domain);
    ASSERT_EQ(passing.ask("subscriber topic"), "ok");
    ASSERT_EQ(publisher.wait_for_subscribers(1, kLong), Outcome::kDone);
    publish_patterns(publisher, 0, 2);
    passing.kill_and_wait();
    ASSERT_TRUE(eventually([&] { return publisher.subscribers() == 0; }));
  }
  EXPECT_TRUE(eventually([&] { return open_descriptors() <= before; }));
}

// A subscriber that polls its event descriptor, and a publisher that does not come to wake it for
// its second sample.
class Unwoken : public Death {
 protected:
  void gets_the_first(Peer& peer) {
    ASSERT_EQ(peer.ask("publisher topic seed=4"), "ok");
    ASSERT_EQ(peer.ask("await_subscribers 1"), "ok");
    ASSERT_EQ(subscriber.wait_for_publishers(1, kLong), Outcome::kDone);
    ASSERT_EQ(peer.ask("publish 1"), "ok");
    ASSERT_EQ(next_seeds(subscriber, 1), Seeds{4});
    EXPECT_FALSE(subscriber.try_receive());
  }
  // By polling, for as long as it takes.
  std::optional<std::uint64_t> next_seed() {
    pollfd ready{fd, POLLIN, 0};
    const auto limit = std::chrono::milliseconds(kLong);
    while (::poll(&ready, 1, static_cast<int>(limit.count())) == 1)
      if (const auto sample = subscriber.try_receive()) return seed_of(*sample);
    return std::nullopt;
  }

  bus::Subscriber subscriber{"topic", {}, here};
  const int fd = subscriber.event_descriptor();
};

TEST_F(Unwoken, it_hears_of_a_sample_whose_publisher_died) {
  Peer peer(domain, "publish.entry_full:2:kill");
  gets_the_first(peer);
  ASSERT_EQ(peer.ask("publish 1"), "dead");
  (void)peer.exit_status();
  EXPECT_EQ(next_seed(), 5U);
}

// It looks by itself from time to time.
TEST_F(Unwoken, it_hears_of_a_sample_whose_publisher_was_stopped) {
  Peer peer(domain, "publish.entry_full:2:stop");
  gets_the_first(peer);
  peer.tell("publish 1");
  ASSERT_TRUE(peer.wait_until_stopped());
  EXPECT_EQ(next_seed(), 5U);
  peer.signal(SIGCONT);
  EXPECT_EQ(peer.reply(), "ok");
}

}  // namespace
}  // namespace tensorbus
