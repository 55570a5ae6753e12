// Items that a producer has put through its ring, and that name memory of the server: the producer
// ends before the server reads the ring.

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tensorbus/bus/publisher.hpp"
#include "tensorbus/bus/queue.hpp"
#include "tensorbus/bus/subscriber.hpp"
#include "tests/unit/bus/test_support.hpp"

namespace tensorbus {
namespace {

using namespace tensorbus::testing;

class EndingProducer : public ::testing::Test {
 protected:
  // While this object exists, the server's event loop handles no message.
  class Pause {
   public:
    explicit Pause(bus::Participant& server) {
      server.context().loop.post([this] {
        begun_.set_value();
        may_end_.get_future().wait();
        ended_.set_value();
      });
      begun_.get_future().wait();
    }
    ~Pause() {
      may_end_.set_value();
      ended_.get_future().wait();
    }
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    std::promise<void> begun_, may_end_, ended_;
  };

  EndingProducer() {
    for (std::uint64_t seed = 0; seed < 8; ++seed) {  // the first items go by message
      EXPECT_EQ(put(received(seed)), Outcome::kDone);
      EXPECT_EQ(next(), seed);
    }
  }
  // A sample of the server, received by the producer.
  bus::Sample received(std::uint64_t seed) {
    publish_pattern(publisher, seed);
    return subscriber->receive(kLong).value();
  }
  Outcome put(const bus::Sample& sample) {
    const bus::Tensor& tensor = sample.tensor();
    const TensorView view{.data = tensor.data(), .layout = tensor.layout()};
    return in->put({.tensors = {view}}, kLong);
  }
  std::optional<std::uint64_t> next() {
    bus::Sample item;
    if (queue.get(item, kLong) != Outcome::kDone) return std::nullopt;
    queue.task_done();
    return seed_of(item);
  }
  void end() {
    in.reset();
    subscriber.reset();
    producer.reset();
  }

  const FreshDomain domain;
  const bus::ParticipantRef server = domain.join();
  bus::ParticipantRef producer = domain.join();
  bus::Queue queue{{.maxsize = 32}, server};
  bus::Publisher publisher{"topic", {.reliable = true}, server};
  std::optional<bus::Queue> in{bus::Queue::open(queue.address(), kLong, producer)};
  std::optional<bus::Subscriber> subscriber{std::in_place, "topic", SubscriberOptions{}, producer};
  // Addresses of closed queues: no message goes to them.
  const std::vector<std::string> others = [this] {
    std::vector<std::string> all;
    for (int i = 0; i < 70; ++i) all.push_back(bus::Queue({}, server).address());
    return all;
  }();
  const bool joined = publisher.wait_for_subscribers(1, kLong) == Outcome::kDone &&
                      subscriber->wait_for_publishers(1, kLong) == Outcome::kDone;
};

TEST_F(EndingProducer, that_hands_memory_back_loses_no_item) {
  {
    const Pause pause(*server);
    ASSERT_EQ(put(received(100)), Outcome::kDone);
    end();
    publish_pattern(publisher, 101);  // reads the returned leases
  }
  EXPECT_EQ(next(), 100U);
  EXPECT_EQ(queue.stats().lost, 0U);
}

TEST_F(EndingProducer, whose_samples_outlive_it_loses_no_item) {
  {
    const Pause pause(*server);
    bus::Sample sample = received(100);
    ASSERT_EQ(put(sample), Outcome::kDone);
    end();
    sample = {};
    publish_pattern(publisher, 101);
  }
  EXPECT_EQ(next(), 100U);
  EXPECT_EQ(queue.stats().lost, 0U);
}

TEST_F(EndingProducer, whose_ring_was_dropped_before_loses_no_item) {
  {
    const Pause pause(*server);
    ASSERT_EQ(put(received(100)), Outcome::kDone);
    in.reset();
    for (const std::string& address : others)  // a participant keeps the rings of its last queues
      (void)bus::Queue::at(address, {}, producer);
    end();
  }
  EXPECT_EQ(next(), 100U);
  EXPECT_EQ(queue.stats().lost, 0U);
}

TEST_F(EndingProducer, leaves_no_memory) {
  {
    const Pause pause(*server);
    ASSERT_EQ(put(received(100)), Outcome::kDone);
    end();
  }
  EXPECT_EQ(next(), 100U);
  EXPECT_TRUE(eventually([&] { return used_bytes(server, {&publisher}) == 0; }));
}

}  // namespace
}  // namespace tensorbus
