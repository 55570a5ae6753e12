// Queues that are found by name, except one that has ended.

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <thread>

#include "tensorbus/bus/domain/topic_name.hpp"
#include "tensorbus/bus/queue.hpp"
#include "tensorbus/bus/queue_client/open_queue.hpp"
#include "tensorbus/bus/queue_client/queue_markers.hpp"
#include "tests/unit/bus/test_support.hpp"

namespace tensorbus {
namespace {

using namespace tensorbus::testing;

class NamedQueues : public ::testing::Test {
 protected:
  std::optional<bus::QueueAddress> find(const std::string& name,
                                        const std::optional<bus::QueueAddress>& ended = {}) {
    return bus::find_queue(client->domain(), name, ended);
  }
  // Returns an address as find() does: a marker has no key.
  static bus::QueueAddress without_key(const bus::Queue& queue) {
    bus::QueueAddress address = bus::parse_queue_address(queue.address());
    address.queue.key = 0;
    return address;
  }
  std::string open(std::chrono::nanoseconds timeout, const std::string& ended) {
    return bus::Queue::open("line", timeout, client, ended).address();
  }

  const FreshDomain domain;
  const bus::ParticipantRef server = domain.join();
  const bus::ParticipantRef other = domain.join();
  const bus::ParticipantRef client = domain.join();
};

TEST_F(NamedQueues, are_found_unless_they_have_ended) {
  EXPECT_EQ(find("line"), std::nullopt);
  const bus::Queue queue({.name = "line"}, server);
  const bus::QueueAddress address = bus::parse_queue_address(queue.address());
  EXPECT_EQ(find("line"), without_key(queue));
  EXPECT_EQ(find("line", address), std::nullopt);
  EXPECT_EQ(find("line", without_key(queue)), std::nullopt) << "the key does not matter";
  EXPECT_EQ(find("lin"), std::nullopt);
}

TEST_F(NamedQueues, are_found_if_another_one_has_ended) {
  const bus::Queue queue({.name = "line"}, server);
  bus::QueueAddress ended = bus::parse_queue_address(queue.address());
  ++ended.queue.number;
  EXPECT_EQ(find("line", ended), without_key(queue)) << "of the same process";
  ended = bus::parse_queue_address(queue.address());
  ended.server = other->id();
  EXPECT_EQ(find("line", ended), without_key(queue)) << "of the same number";
}

TEST_F(NamedQueues, of_one_name_are_found_behind_the_one_that_has_ended) {
  const std::string name = "service:line";  // several processes may serve it
  const bus::Queue one({.name = name}, server);
  const bus::Queue two({.name = name}, other);
  EXPECT_EQ(find(name, bus::parse_queue_address(one.address())), without_key(two));
  EXPECT_EQ(find(name, bus::parse_queue_address(two.address())), without_key(one));
}

TEST_F(NamedQueues, of_dead_processes_are_not_found) {
  const bus::QueueAddress dead{Id::random(), {.number = 1, .key = 0}};
  client->domain().add_marker(
      bus::marker_name(std::string(bus::kQueueMarker) + bus::escape_topic("line"), dead.server, 1));
  ASSERT_EQ(bus::marked_queues(client->domain(), "line").size(), 1U);
  EXPECT_EQ(find("line"), std::nullopt);
  EXPECT_EQ(find("line", dead), std::nullopt);
}

TEST_F(NamedQueues, are_opened_also_after_their_shutdown_but_not_as_ended) {
  bus::Queue queue({.name = "line"}, server);
  (void)queue.shutdown();
  EXPECT_EQ(open(kLong, ""), queue.address());
  EXPECT_EQ(code_of([&] { (void)open(1ms, queue.address()); }), Code::kTimeout);
  EXPECT_EQ(code_of([&] { (void)open(0ns, queue.address()); }), Code::kTimeout);
  EXPECT_EQ(code_of([&] { (void)open(kLong, "line"); }), Code::kInvalidArgument);
  EXPECT_EQ(bus::Queue::open(queue.address(), kLong, client, queue.address()).address(),
            queue.address())
      << "an address names one queue";
}

TEST_F(NamedQueues, are_waited_for_when_the_last_one_has_ended) {
  std::string ended;
  for (const bus::ParticipantRef& by : {server, other, server}) {
    std::string opened;
    std::thread thread;
    if (!ended.empty()) thread = std::thread([&] { opened = open(kLong, ended); });
    bus::Queue queue({.name = "line"}, by);
    if (thread.joinable()) {
      thread.join();
      EXPECT_EQ(opened, queue.address());
    }
    ended = queue.address();
    (void)queue.shutdown();
  }
}

TEST_F(NamedQueues, opened_with_an_ended_one_have_their_settings) {
  const bus::Queue queue({.maxsize = 3, .redeliver = true, .name = "line"}, server);
  bus::QueueAddress ended = bus::parse_queue_address(queue.address());
  ++ended.queue.number;
  const bus::OpenedQueue opened =
      bus::open_named_queue(client->context(), client->domain(), "line", kLong, ended);
  EXPECT_EQ(opened.address, without_key(queue));
  EXPECT_EQ(opened.settings.maxsize, 3U);
  EXPECT_TRUE(opened.settings.redeliver);
  EXPECT_EQ(opened.settings.key, bus::parse_queue_address(queue.address()).queue.key);
}

}  // namespace
}  // namespace tensorbus
