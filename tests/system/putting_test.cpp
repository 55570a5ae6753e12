// A producer dies, or is stopped, at each step of a put through its ring. What it had put by then
// is in the queue, and nothing else.

#include <csignal>
#include <future>
#include <optional>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "support.hpp"
#include "tensorbus/bus/queue.hpp"
#include "tests/system/queue_numbers.hpp"
#include "tests/unit/platform/test_support.hpp"

namespace tensorbus {
namespace {

using namespace tensorbus::testing;

constexpr int kItemsToPut = 300;  // more than the ring has slots
using PutNumbers = std::vector<std::uint64_t>;

// A step, the passage of it, how many items are in the queue then (the first one goes by message),
// and whether they have tensors. With tensors more items may be there: an item also goes by message
// while the producer's event loop is busy.
using PutPlace = std::tuple<std::string, int, int, bool>;

class Putting : public ::testing::TestWithParam<PutPlace> {
 protected:
  std::string order(const std::string& action) const {
    return std::get<0>(GetParam()) + ":" + std::to_string(std::get<1>(GetParam())) + ":" + action;
  }
  std::size_t least() const { return static_cast<std::size_t>(std::get<2>(GetParam())); }
  bool with_tensors() const { return std::get<3>(GetParam()); }
  // Checks that this is all that was put before the step.
  void expect_those_put(const PutNumbers& got) const {
    EXPECT_EQ(got, numbers(0, static_cast<int>(got.size())));
    EXPECT_GE(got.size(), least());
    EXPECT_TRUE(with_tensors() || got.size() == least()) << got.size();
  }
  static PutNumbers numbers(int first, int end) {
    PutNumbers all;
    for (int number = first; number < end; ++number) all.push_back(static_cast<unsigned>(number));
    return all;
  }
  PutNumbers get(std::size_t count, std::chrono::nanoseconds timeout) {
    PutNumbers got;
    bus::Sample sample;
    while (got.size() < count && queue.get(sample, timeout) == Outcome::kDone) {
      const auto number = number_of(sample);
      if (!number) break;
      got.push_back(*number);
    }
    return got;
  }
  void tell_to_put(Peer& producer, int count = kItemsToPut) const {
    producer.tell("put " + queue.address() + " count=" + std::to_string(count) +
                  " tensor=" + std::to_string(with_tensors() ? 1 : 0));
  }
  void goes_on() {
    Peer fresh(domain);
    tell_to_put(fresh, 5);
    EXPECT_EQ(fresh.reply(), "ok");
    EXPECT_EQ(get(6, 0s), numbers(0, 5));
  }

  const FreshDomain domain;
  const bus::ParticipantRef server = domain.join();
  bus::Queue queue{{}, server};
};

TEST_P(Putting, what_a_dead_producer_had_put_is_there_and_nothing_else) {
  Peer producer(domain, order("kill"));
  tell_to_put(producer);
  ASSERT_TRUE(eventually([&] { return producer.has_ended(); }));
  producer.close_pipes();
  const auto items = queue.stats().items;
  const PutNumbers got = get(kItemsToPut, 0s);
  EXPECT_EQ(got.size(), items);
  expect_those_put(got);
  goes_on();
}

TEST_P(Putting, a_getter_that_waits_gets_what_a_dead_producer_had_put) {
  Peer producer(domain, order("kill"));
  tell_to_put(producer);
  PutNumbers got = get(least(), kLong);
  ASSERT_TRUE(eventually([&] { return producer.has_ended(); }));
  producer.close_pipes();
  for (const std::uint64_t number : get(kItemsToPut, 0s)) got.push_back(number);
  expect_those_put(got);
  goes_on();
}

TEST_P(Putting, what_a_stopped_producer_had_put_is_there) {
  Peer producer(domain, order("stop"));
  tell_to_put(producer);
  ASSERT_TRUE(producer.wait_until_stopped());
  const PutNumbers got = get(kItemsToPut, 0s);
  expect_those_put(got);
  producer.signal(SIGCONT);
  EXPECT_EQ(get(kItemsToPut - got.size(), kLong),
            numbers(static_cast<int>(got.size()), kItemsToPut));
  EXPECT_EQ(producer.reply(), "ok");
  goes_on();
}

TEST_P(Putting, a_stopped_producer_puts_nothing_after_a_shutdown) {
  Peer producer(domain, order("stop"));
  tell_to_put(producer);
  ASSERT_TRUE(producer.wait_until_stopped());
  queue.shutdown();
  producer.signal(SIGCONT);
  EXPECT_EQ(producer.reply(), "not put");
  expect_those_put(get(kItemsToPut, 0s));
}

// The same while the getter, of the server's process, waits: it wakes the getter itself, by the
// ring.
class PuttingForOneWhoWaits : public Putting {
 protected:
  // Puts one item for each get that sleeps, until the producer does not answer any more.
  std::string put_and_get(Peer& producer, int most) {
    std::string reply = "ok";
    for (int i = 0; i < most && reply == "ok"; ++i) {
      std::promise<pid_t> begins;
      auto got = std::async(std::launch::async, [&] {
        begins.set_value(::gettid());
        return get(1, kLong);
      });
      const pid_t getter = begins.get_future().get();
      EXPECT_TRUE(test::wait_until_asleep(::getpid(), getter));
      tell_to_put(producer, 1);
      EXPECT_EQ(got.get(), numbers(0, 1));
      reply = producer.reply();
    }
    return reply;
  }
};

TEST_P(PuttingForOneWhoWaits, an_item_of_a_dead_producer_comes) {
  Peer producer(domain, order("kill"));
  EXPECT_EQ(put_and_get(producer, 20), "dead");
  producer.close_pipes();
  goes_on();
}

TEST_P(PuttingForOneWhoWaits, an_item_of_a_stopped_producer_comes_when_it_goes_on) {
  std::optional<Peer> producer(std::in_place, domain, order("stop"));
  std::jthread wakes([&] {
    if (producer->wait_until_stopped()) producer->signal(SIGCONT);
  });
  EXPECT_EQ(put_and_get(*producer, 20), "ok");
  producer->signal(SIGKILL);
  wakes.join();
  producer->close_pipes();
  goes_on();
}

INSTANTIATE_TEST_SUITE_P(At, PuttingForOneWhoWaits,
                         ::testing::Values(PutPlace{"put_ring.wakes", 1, 0, false},
                                           PutPlace{"put_ring.wakes", 3, 0, false},
                                           PutPlace{"put_ring.wakes", 2, 0, true}));

INSTANTIATE_TEST_SUITE_P(At, Putting,
                         ::testing::Values(PutPlace{"put_ring.written", 1, 1, false},
                                           PutPlace{"put_ring.written", 3, 3, false},
                                           PutPlace{"put_ring.committed", 1, 2, false},
                                           PutPlace{"put_ring.committed", 3, 4, false},
                                           PutPlace{"put_ring.written", 3, 3, true},
                                           PutPlace{"put_ring.committed", 3, 4, true}));

}  // namespace
}  // namespace tensorbus
