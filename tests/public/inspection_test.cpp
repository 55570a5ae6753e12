// What the participants of a domain have, as the C++ API says it.

#include <tensorbus/version.hpp>

#include "support.hpp"

namespace tensorbus {
namespace {

using namespace tensorbus::testing;

class Inspecting : public ::testing::Test {
 protected:
  ParticipantReport report_of(const Participant& of) const {
    for (ParticipantReport& report : inspect(domain.path(), kLong).participants)
      if (report.participant == of.id()) return std::move(report);
    ADD_FAILURE() << "the participant is not listed";
    return {};
  }

  const FreshDomain domain;
  const Participant participant = domain.join();
  const Participant other = domain.join();
};

TEST_F(Inspecting, shows_a_publisher_and_its_subscribers) {
  Publisher publisher("topic", {.depth = 2, .history = 1, .node = "camera"}, participant);
  Subscriber subscriber("topic", {.max_held = 3, .access = Access::kPrivate, .node = "viewer"},
                        other);
  ASSERT_EQ(publisher.wait_for_subscribers(1, kLong), Outcome::kDone);
  const float one = 1;
  (void)publisher.publish({.tensors = {TensorView::of(&one, {1})}});
  const auto sample = subscriber.receive(kLong);
  const ParticipantReport report = report_of(participant);
  EXPECT_EQ(report.error, "");
  EXPECT_EQ(report.pid, static_cast<std::uint32_t>(::getpid()));
  EXPECT_EQ(report.version, kVersion);
  EXPECT_EQ(report.topics, std::vector<std::string>{"topic"});
  ASSERT_EQ(report.publishers.size(), 1U);
  const PublisherReport& said = report.publishers.front();
  EXPECT_EQ(said.topic, "topic");
  EXPECT_EQ(said.node, "camera");
  EXPECT_EQ(said.bytes_sent, sizeof one);
  EXPECT_EQ(said.stats.sent, 1U);
  EXPECT_EQ(said.stats.bytes_in_flight, publisher.stats().bytes_in_flight);
  ASSERT_EQ(said.links.size(), 1U);
  EXPECT_EQ(said.links.front().subscriber.participant, other.id());
  EXPECT_EQ(said.links.front().subscriber.process, report.process);
  EXPECT_EQ(said.links.front().node, "viewer");
  EXPECT_EQ(said.links.front().max_held, 3U);
  EXPECT_EQ(said.links.front().held, 1U);
  EXPECT_GT(said.links.front().oldest_held.count(), 0);
  EXPECT_EQ(report.memory.used_bytes, participant.arena().used_bytes);
  ASSERT_EQ(report.memory.lent.size(), 1U);
  EXPECT_EQ(report.memory.lent.front().leases, 1U);
}

TEST_F(Inspecting, shows_a_subscriber) {
  const Publisher publisher("topic", {}, participant);
  Subscriber subscriber("topic", {.access = Access::kPrivate, .node = "viewer"}, other);
  ASSERT_EQ(subscriber.wait_for_publishers(1, kLong), Outcome::kDone);
  const ParticipantReport report = report_of(other);
  ASSERT_EQ(report.subscribers.size(), 1U);
  EXPECT_EQ(report.subscribers.front().node, "viewer");
  EXPECT_EQ(report.subscribers.front().access, Access::kPrivate);
  EXPECT_EQ(report.subscribers.front().stats.publishers, 1U);
  EXPECT_EQ(report.subscribers.front().publishers,
            std::vector<std::string>{participant.id().hex() + ".1"});
}

TEST_F(Inspecting, shows_queues_shares_and_nodes) {
  Queue queue({.maxsize = 2, .redeliver = true, .name = "service:add", .max_bytes = 99},
              participant);
  const float one = 1;
  ASSERT_EQ(queue.put({.tensors = {TensorView::of(&one, {1})}}), Outcome::kDone);
  Sample item;
  ASSERT_EQ(queue.get(item, kLong), Outcome::kDone);
  const Shared shared = share({.tensors = {TensorView::of(&one, {1})}}, {.uses = 2}, participant);
  const NodeName node("camera", participant);
  const ParticipantReport report = report_of(participant);
  EXPECT_EQ(report.nodes, std::vector<std::string>{"camera"});
  ASSERT_EQ(report.queues.size(), 1U);
  const QueueReport& said = report.queues.front();
  EXPECT_EQ(said.service, "add");
  EXPECT_EQ(said.max_bytes, 99U);
  EXPECT_EQ(said.stats.unfinished, 1U);
  ASSERT_EQ(said.clients.size(), 1U);
  EXPECT_EQ(said.clients.front().in_hand, 1U);
  ASSERT_EQ(report.shares.size(), 1U);
  EXPECT_EQ(report.shares.front().uses_left, 2U);
}

TEST_F(Inspecting, refuses_what_is_no_name_of_a_domain) {
  EXPECT_EQ(code_of([] { (void)inspect(std::string("a\0b", 3)); }), Code::kInvalidArgument);
}

}  // namespace
}  // namespace tensorbus
