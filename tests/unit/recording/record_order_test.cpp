// The order of the samples of several topics.
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "tensorbus/recording/record_collector.hpp"
#include "tests/fakes/fake_owner.hpp"

namespace tensorbus::recording {
namespace {

using namespace bus::testing;

// A publisher on "topic" that replies late. Another one on "other" publishes meanwhile.
class LateOwner : public FakeOwner {
 protected:
  LateOwner() {
    greet();
    collector.emplace(CollectorOptions{.topics = {"topic", "other"}, .depth = 4}, borrower, buffer);
    EXPECT_EQ(peer->next(), ControlType::kSubscribe);
    number = peer->received.as<link::Subscribe>().link;
    thread = std::thread([this] { collector->run(); });
    publisher.emplace("other", PublisherOptions{}, owner);
    EXPECT_EQ(publisher->wait_for_subscribers(1, kLong), Outcome::kDone);
  }
  ~LateOwner() override { end(); }

  void end() {
    collector->end();
    peer.reset();
    if (thread.joinable()) thread.join();
    buffer.close();
  }
  // Returns when the recorder has looked at all topics several times since the first one.
  void publish_on_other() {
    for (const platform::Deadline deadline(20ms); !deadline.passed();)
      tensorbus::testing::publish_patterns(*publisher, 0, 1);
  }
  void push(std::uint64_t timestamp) {
    tensor::Descriptor empty;
    link::Entry entry;
    entry.timestamp_ns = timestamp;
    entry.length = static_cast<std::uint32_t>(empty.encoded_bytes());
    empty.encode(std::span(entry.inline_bytes).first(entry.length));
    ring.push(0, entry);
  }
  void reply() {
    peer->channel.send(link::Accepted{.link = number, .slots = 4, .returns = 8, .max_held = 4},
                       fds_of(platform::duplicate(memory->memfd().get())));
  }
  std::vector<std::string> recorded() {
    std::vector<std::string> topics;
    while (!buffer.ended())
      for (const RecordedSample& one : buffer.take())
        if (one.has_sample) topics.push_back(one.publisher->topic);
    return topics;
  }

  const bus::ParticipantRef owner = fresh.join();
  RecordBuffer buffer{std::uint64_t{1} << 20};
  std::optional<RecordCollector> collector;
  std::optional<bus::Publisher> publisher;
  std::thread thread;
};

TEST_F(LateOwner, comes_before_what_was_published_later) {
  memory.emplace(link::Geometry::for_link(4, 4));
  ring = link::SampleRingWriter(memory->slots());
  const auto begun = platform::Clock::now();
  push(platform::wall_clock_ns());
  publish_on_other();
  reply();
  const bool in_time = platform::Clock::now() - begun < 90ms;  // the recorder waits for 100 ms
  EXPECT_TRUE(
      eventually([&] { return memory->slots()[0].state.load(std::memory_order_acquire) == 2; }));
  end();
  const std::vector<std::string> topics = recorded();
  ASSERT_GT(topics.size(), 1U);
  if (!in_time) GTEST_SKIP() << "this machine was too slow to reply within 100 ms";
  EXPECT_EQ(topics.front(), "topic");
}

TEST_F(LateOwner, that_never_replies_holds_up_no_sample_of_others) {
  publish_on_other();
  EXPECT_TRUE(eventually([&] { return buffer.bytes() > 0; }));
  end();
  EXPECT_FALSE(recorded().empty());
}

}  // namespace
}  // namespace tensorbus::recording
