// Who is in a domain.

#include "tensorbus/bus/listing.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "tensorbus/bus/domain/advertisement.hpp"
#include "tests/unit/bus/test_support.hpp"

namespace tensorbus {
namespace {

using namespace tensorbus::testing;

class Listed : public ::testing::Test {
 protected:
  std::vector<std::string> topics() const {
    std::vector<std::string> names;
    for (const PublisherInfo& publisher : bus::list_publishers(asking))
      names.push_back(publisher.topic);
    std::ranges::sort(names);
    return names;
  }
  std::vector<std::string> nodes() const {
    std::vector<std::string> names;
    for (const NodeInfo& node : bus::list_nodes(asking)) names.push_back(node.name);
    std::ranges::sort(names);
    return names;
  }

  const FreshDomain domain;
  const bus::ParticipantRef asking = domain.join();
  const bus::ParticipantRef other = domain.join();
};

using Names = std::vector<std::string>;

TEST_F(Listed, is_a_publisher_with_its_type_node_and_process) {
  const MessageType type("robot.Pose\nposition: array");
  PublisherOptions options;
  options.type = type;
  options.node = "driver";
  const bus::Publisher publisher("camera/image", options, other);
  const auto found = bus::list_publishers(asking);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].topic, "camera/image");
  EXPECT_EQ(found[0].node, "driver");
  EXPECT_EQ(found[0].type.definition(), type.definition());
  EXPECT_EQ(found[0].participant, other->id());
  EXPECT_EQ(found[0].pid, static_cast<std::uint32_t>(::getpid()));
}

TEST_F(Listed, are_publishers_and_nodes_as_they_come_and_go) {
  EXPECT_EQ(topics(), Names{});
  bus::Publisher untyped("a", {}, other);
  const bus::Publisher odd(std::string(1000, '\n'), {}, other);
  const bus::NodeName first("driver", other);
  {
    const bus::NodeName second("driver", asking);
    const bus::NodeName third("a", other);
    EXPECT_EQ(nodes(), (Names{"a", "driver", "driver"}));
  }
  EXPECT_EQ(topics(), (Names{std::string(1000, '\n'), "a"}));
  EXPECT_EQ(nodes(), Names{"driver"});
  untyped.close();
  EXPECT_EQ(topics(), Names{std::string(1000, '\n')});
}

TEST_F(Listed, is_nothing_that_others_left_or_made_up) {
  const bus::Publisher publisher("a", {}, other);
  const std::string dead = Id::random().hex();
  std::ofstream(domain.path() + "/b@" + dead + ".1.pub") << "noise";
  std::ofstream(domain.path() + "/c@" + other->id().hex() + ".7.pub") << "noise";
  std::ofstream(domain.path() + "/d@" + other->id().hex() + ".8.pub");
  std::ofstream(domain.path() + "/node=e@" + other->id().hex() + ".9.pub") << std::string(99, '\0');
  EXPECT_EQ(topics(), Names{"a"});
  EXPECT_EQ(nodes(), Names{});
}

TEST_F(Listed, is_a_publisher_of_an_older_process) {
  bus::Advertisement written{42, "camera", "driver", "robot.Pose\nposition: array"};
  const std::string now = bus::encode(written);
  const std::string older = now.substr(0, now.size() - 5 * sizeof(std::uint32_t));
  std::ofstream(domain.path() + "/camera@" + other->id().hex() + ".7.pub") << older;
  const auto found = bus::list_publishers(asking);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].topic, "camera");
  EXPECT_EQ(found[0].node, "driver");
  EXPECT_EQ(found[0].pid, 42U);
  EXPECT_EQ(found[0].machine, "");
}

TEST_F(Listed, can_be_waited_for) {
  EXPECT_EQ(bus::wait_for_topic("a", 0ns, asking), Outcome::kTimedOut);
  EXPECT_EQ(bus::wait_for_node("a", 1ms, asking), Outcome::kTimedOut);
  EXPECT_EQ(bus::wait_for_node("a", {kLong, [] { return true; }}, asking), Outcome::kInterrupted);
  std::optional<bus::Publisher> publisher;
  std::optional<bus::NodeName> node;
  std::thread later([&] {
    node.emplace("a", other);
    publisher.emplace("a", PublisherOptions(), other);
  });
  EXPECT_EQ(bus::wait_for_topic("a", kLong, asking), Outcome::kDone);
  EXPECT_EQ(bus::wait_for_node("a", kLong, asking), Outcome::kDone);
  later.join();
}

TEST_F(Listed, is_no_node_without_a_name) {
  EXPECT_EQ(code_of([&] { bus::NodeName("", asking); }), Code::kInvalidArgument);
}

}  // namespace
}  // namespace tensorbus
