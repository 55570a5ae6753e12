// What inspect() says, beside what the processes know of themselves.

#include "tensorbus/bus/inspection.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "tensorbus/bus/listing.hpp"
#include "tensorbus/bus/queue.hpp"
#include "tensorbus/bus/share.hpp"
#include "tests/unit/bus/test_support.hpp"

namespace tensorbus {
namespace {

using namespace testing;

class Inspect : public ::testing::Test {
 protected:
  ParticipantReport report_of(const bus::ParticipantRef& participant) const {
    for (ParticipantReport& report : bus::inspect(domain.path(), kLong).participants)
      if (report.participant == participant->id()) return std::move(report);
    ADD_FAILURE() << "the participant is not listed";
    return {};
  }
  // Of the only publisher of `owner`.
  PublisherReport publisher_report() const {
    ParticipantReport report = report_of(owner);
    EXPECT_EQ(report.publishers.size(), 1U);
    return report.publishers.empty() ? PublisherReport{} : std::move(report.publishers.front());
  }

  const FreshDomain domain;
  const bus::ParticipantRef owner = domain.join();
  const bus::ParticipantRef borrower = domain.join();
};

TEST_F(Inspect, lists_each_participant_once) {
  const Inspection found = bus::inspect(domain.path(), kLong);
  ASSERT_EQ(found.participants.size(), 2U);
  EXPECT_EQ(found.domain, domain.path());
  EXPECT_GT(found.time_ns, 0U);
  for (const ParticipantReport& report : found.participants) {
    EXPECT_EQ(report.error, "");
    EXPECT_EQ(report.pid, static_cast<std::uint32_t>(::getpid()));
    EXPECT_NE(report.process, "");
    EXPECT_NE(report.version, "");
    EXPECT_GT(report.age.count(), 0);
  }
}

TEST_F(Inspect, makes_nothing_where_there_is_no_domain) {
  const std::string nowhere = domain.path() + "/nowhere";
  EXPECT_TRUE(bus::inspect(nowhere, kLong).participants.empty());
  EXPECT_FALSE(std::filesystem::exists(nowhere));
}

TEST_F(Inspect, says_what_a_publisher_knows_of_itself) {
  bus::Publisher publisher("topic", {.depth = 2, .history = 1, .node = "camera"}, owner);
  bus::Subscriber subscriber("topic", {.max_held = 3, .node = "viewer"}, borrower);
  ASSERT_EQ(publisher.wait_for_subscribers(1, kLong), Outcome::kDone);
  publish_patterns(publisher, 0, 2);
  std::vector<bus::Sample> held;
  for (int i = 0; i < 2; ++i) held.push_back(*subscriber.receive(kLong));
  publish_patterns(publisher, 2, 3);  // of a depth of 2, so one is dropped
  const PublisherStats stats = publisher.stats();
  const PublisherReport report = publisher_report();
  EXPECT_EQ(report.topic, "topic");
  EXPECT_EQ(report.node, "camera");
  EXPECT_EQ(report.depth, 2U);
  EXPECT_EQ(report.history, 1U);
  EXPECT_EQ(report.stats.sent, 5U);
  EXPECT_EQ(report.stats.delivered, stats.delivered);
  EXPECT_EQ(report.stats.bytes_in_flight, stats.bytes_in_flight);
  EXPECT_EQ(report.bytes_sent, 5 * 64 * sizeof(std::uint64_t));
  ASSERT_EQ(report.links.size(), 1U);
  const LinkReport& link = report.links.front();
  EXPECT_EQ(link.subscriber.participant, borrower->id());
  EXPECT_EQ(link.subscriber.pid, static_cast<std::uint32_t>(::getpid()));
  EXPECT_NE(link.subscriber.process, "");
  EXPECT_EQ(link.node, "viewer");
  EXPECT_EQ(link.depth, 2U);
  EXPECT_EQ(link.max_held, 3U);
  EXPECT_EQ(link.delivered, 5U);
  EXPECT_EQ(link.waiting, 2U);
  EXPECT_EQ(link.held, 2U);
  EXPECT_EQ(link.held, subscriber.stats().held);
  EXPECT_EQ(link.dropped_depth, 1U);
  EXPECT_EQ(link.dropped_depth, stats.dropped_depth);
  EXPECT_EQ(link.held_bytes, stats.bytes_in_flight);  // the history's sample waits there, too
  EXPECT_GT(link.oldest_held.count(), 0);
}

TEST_F(Inspect, says_how_old_the_oldest_held_sample_is) {
  bus::Publisher publisher("topic", {}, owner);
  bus::Subscriber subscriber("topic", {}, borrower);
  ASSERT_EQ(publisher.wait_for_subscribers(1, kLong), Outcome::kDone);
  const auto age = [&] { return publisher_report().links.at(0).oldest_held; };
  const auto since = [](const bus::Sample& sample) {
    return std::chrono::nanoseconds(platform::wall_clock_ns() - sample.header().timestamp_ns);
  };
  EXPECT_EQ(age().count(), 0);
  publish_patterns(publisher, 0, 1);
  std::optional<bus::Sample> first = subscriber.receive(kLong);
  const auto least = since(*first);
  EXPECT_GE(age(), least);
  const auto one = age();
  EXPECT_LE(one, since(*first));
  std::this_thread::sleep_for(50ms);  // the second is that much younger
  publish_patterns(publisher, 1, 1);
  std::optional<bus::Sample> second = subscriber.receive(kLong);
  EXPECT_GE(age(), 50ms);
  first.reset();
  const auto other = age();
  EXPECT_LE(other, since(*second));
  second.reset();
  EXPECT_EQ(age().count(), 0);
}

TEST_F(Inspect, says_why_each_subscriber_lost_samples) {
  bus::Publisher publisher("topic", {.depth = 1}, owner);
  bus::Subscriber holder("topic", {.max_held = 1}, borrower);
  ASSERT_EQ(publisher.wait_for_subscribers(1, kLong), Outcome::kDone);
  publish_patterns(publisher, 0, 1);
  const auto held = holder.receive(kLong);
  publish_patterns(publisher, 1, 3);
  const PublisherReport report = publisher_report();
  const PublisherStats stats = publisher.stats();
  EXPECT_EQ(report.links.at(0).dropped_depth, stats.dropped_depth);
  EXPECT_EQ(report.links.at(0).dropped_held, stats.dropped_held);
  EXPECT_EQ(stats.dropped_depth + stats.dropped_held, 2U);
}

TEST_F(Inspect, says_who_blocks_a_reliable_publisher_and_who_was_cut_off) {
  bus::Publisher publisher("topic", {.depth = 1, .reliable = true, .lag_timeout = 200ms}, owner);
  bus::Subscriber subscriber("topic", {.max_held = 1}, borrower);
  ASSERT_EQ(publisher.wait_for_subscribers(1, kLong), Outcome::kDone);
  publish_patterns(publisher, 0, 1);
  const auto held = subscriber.receive(kLong);
  publish_patterns(publisher, 1, 1);
  const std::uint64_t word = 2;
  const Message waits{.tensors = {{&word, Layout::contiguous(DType::kUInt64, {1})}}};
  EXPECT_EQ(publisher.publish(waits, 1ms).outcome, Outcome::kTimedOut);
  EXPECT_GT(publisher_report().links.at(0).blocked.count(), 0);
  publish_patterns(publisher, 3, 1);  // waits until the subscriber is cut off
  const PublisherReport report = publisher_report();
  ASSERT_EQ(report.links.size(), 1U);
  EXPECT_TRUE(report.links.front().cut_off);
  EXPECT_EQ(report.links.front().held, 1U);
  EXPECT_EQ(report.stats.cut_off, 1U);
}

TEST_F(Inspect, says_what_a_subscriber_knows_of_itself) {
  bus::Publisher publisher("topic", {}, owner);
  bus::Subscriber subscriber("topic", {.depth = 4, .reliable = false, .access = Access::kPrivate},
                             borrower);
  ASSERT_EQ(subscriber.wait_for_publishers(1, kLong), Outcome::kDone);
  publish_patterns(publisher, 0, 2);
  const auto sample = subscriber.receive(kLong);
  const ParticipantReport report = report_of(borrower);
  ASSERT_EQ(report.subscribers.size(), 1U);
  const SubscriberReport& said = report.subscribers.front();
  EXPECT_EQ(said.topic, "topic");
  EXPECT_EQ(said.depth, 4U);
  EXPECT_FALSE(said.reliable);
  EXPECT_EQ(said.access, Access::kPrivate);
  EXPECT_EQ(said.stats.received, 1U);
  EXPECT_EQ(said.stats.held, 1U);
  EXPECT_EQ(said.publishers, std::vector<std::string>{owner->id().hex() + ".1"});
}

TEST_F(Inspect, says_who_has_whose_memory) {
  bus::Publisher publisher("topic", {}, owner);
  bus::Subscriber subscriber("topic", {}, borrower);
  ASSERT_EQ(publisher.wait_for_subscribers(1, kLong), Outcome::kDone);
  publish_patterns(publisher, 0, 2);
  const auto sample = subscriber.receive(kLong);
  const ArenaUse use = owner->memory_use();
  const MemoryReport lending = report_of(owner).memory;
  EXPECT_EQ(lending.used_bytes, use.used_bytes);
  EXPECT_EQ(lending.reserved_bytes, use.reserved_bytes);
  EXPECT_EQ(lending.budget_bytes, use.budget_bytes);
  ASSERT_EQ(lending.lent.size(), 1U);
  EXPECT_EQ(lending.lent.front().peer.participant, borrower->id());
  EXPECT_EQ(lending.lent.front().leases, 2U);  // one is held, one waits
  EXPECT_EQ(lending.lent.front().bytes, publisher.stats().bytes_in_flight);
  EXPECT_GT(lending.lent.front().oldest.count(), 0);
  const MemoryReport borrowing = report_of(borrower).memory;
  ASSERT_EQ(borrowing.borrowed.size(), 1U);
  EXPECT_EQ(borrowing.borrowed.front().peer.participant, owner->id());
  EXPECT_EQ(borrowing.borrowed.front().segments, 1U);
  EXPECT_EQ(borrowing.borrowed.front().leases, 1U);
  EXPECT_GT(borrowing.borrowed.front().bytes, 0U);
}

TEST_F(Inspect, says_what_a_queue_knows_of_itself) {
  bus::Queue queue({.maxsize = 2, .redeliver = true, .name = "service:resize"}, owner);
  bus::Queue client = bus::Queue::open(queue.address(), kLong, borrower);
  std::uint64_t word = 7;
  const Message item{.tensors = {{&word, Layout::contiguous(DType::kUInt64, {1})}}};
  ASSERT_EQ(client.put(item, kLong), Outcome::kDone);
  ASSERT_EQ(client.put(item, kLong), Outcome::kDone);
  bus::Sample sample;
  ASSERT_EQ(client.get(sample, kLong), Outcome::kDone);
  const QueueStats stats = queue.stats();
  const ParticipantReport report = report_of(owner);
  ASSERT_EQ(report.queues.size(), 1U);
  const QueueReport& said = report.queues.front();
  EXPECT_EQ(said.name, "service:resize");
  EXPECT_EQ(said.service, "resize");
  EXPECT_EQ(said.maxsize, 2U);
  EXPECT_TRUE(said.redeliver);
  EXPECT_FALSE(said.shut_down);
  EXPECT_EQ(said.stats.items, stats.items);
  EXPECT_EQ(said.stats.unfinished, stats.unfinished);
  EXPECT_EQ(said.stats.bytes, stats.bytes);
  EXPECT_EQ(said.in_hand, 1U);
  ASSERT_EQ(said.clients.size(), 1U);
  EXPECT_EQ(said.clients.front().client.participant, borrower->id());
  EXPECT_EQ(said.clients.front().in_hand, 1U);
}

TEST_F(Inspect, says_what_is_shared) {
  std::vector<std::uint8_t> bytes(4096);
  const bus::Shared shared = share(
      {.tensors = {{bytes.data(), Layout::contiguous(DType::kUInt8, {4096})}}}, {.uses = 3}, owner);
  const ParticipantReport report = report_of(owner);
  ASSERT_EQ(report.shares.size(), 1U);
  EXPECT_EQ(report.shares.front().bytes, 4096U);
  EXPECT_EQ(report.shares.front().uses_left, 3U);
  EXPECT_GT(report.shares.front().age.count(), 0);
}

TEST_F(Inspect, names_nodes_and_topics) {
  const bus::NodeName node("camera", owner);
  bus::Publisher one("b", {}, owner);
  bus::Publisher other("a", {}, owner);
  const ParticipantReport report = report_of(owner);
  EXPECT_EQ(report.nodes, std::vector<std::string>{"camera"});
  EXPECT_EQ(report.topics, (std::vector<std::string>{"a", "b"}));
}

TEST_F(Inspect, answers_many_inspectors_at_once) {
  bus::Publisher publisher("topic", {}, owner);
  std::vector<std::thread> inspectors;
  for (int i = 0; i < 4; ++i)
    inspectors.emplace_back([&] {
      for (int turn = 0; turn < 20; ++turn) {
        const Inspection found = bus::inspect(domain.path(), kLong);
        ASSERT_EQ(found.participants.size(), 2U);
        for (const auto& report : found.participants) EXPECT_EQ(report.error, "");
      }
    });
  for (std::thread& one : inspectors) one.join();
}

TEST_F(Inspect, keeps_nothing_open) {
  (void)bus::inspect(domain.path(), kLong);
  const std::size_t before = open_descriptors();
  for (int i = 0; i < 100; ++i) (void)bus::inspect(domain.path(), kLong);
  EXPECT_TRUE(eventually([&] { return open_descriptors() <= before; }));
}

TEST_F(Inspect, sees_a_thousand_topics) {
  std::vector<bus::Publisher> publishers;
  for (int i = 0; i < 1000; ++i)
    publishers.emplace_back("topic/" + std::to_string(i), PublisherOptions{}, owner);
  EXPECT_EQ(report_of(owner).publishers.size(), 1000U);
}

TEST_F(Inspect, lists_no_participant_that_has_closed) {
  {
    const bus::ParticipantRef closed = domain.join();
  }
  EXPECT_EQ(bus::inspect(domain.path(), kLong).participants.size(), 2U);
}

}  // namespace
}  // namespace tensorbus
