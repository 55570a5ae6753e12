// Calls that wait, and what ends them early.

#include <csignal>
#include <stdexcept>
#include <stop_token>

#include "support.hpp"

namespace tensorbus {
namespace {

using namespace tensorbus::testing;
using Clock = std::chrono::steady_clock;

class Waiting : public ::testing::Test {
 protected:
  // How `call(stop)` ended that nothing but the stop can end.
  template <typename Call>
  static void ends_when_stopped(Call call) {
    std::stop_source source;
    std::atomic<bool> begun = false;
    Clock::time_point stopped;
    std::jthread other([&] {
      while (!begun) std::this_thread::yield();
      stopped = Clock::now();
      source.request_stop();
    });
    GiveUp give_up = [&, stop = source.get_token()] {
      begun = true;
      return stop.stop_requested();
    };
    EXPECT_EQ(call(give_up), Outcome::kInterrupted);
    const auto ended = Clock::now();
    other.join();
    EXPECT_LT(ended - stopped, kLong);
    EXPECT_EQ(call(GiveUp(source.get_token())), Outcome::kInterrupted) << "it was stopped before";
  }

  const FreshDomain domain;
  const Participant participant = domain.join();
};

TEST_F(Waiting, for_anything_ends_when_it_is_stopped) {
  Subscriber subscriber("topic", {}, participant);
  Publisher publisher("other", {}, participant);
  Queue queue({.maxsize = 1}, participant);
  Sample sample;
  const float one = 1;
  const Message item{.tensors = {TensorView::of(&one, {1})}};
  ASSERT_EQ(queue.put(item), Outcome::kDone);
  Queue none({}, participant);
  ends_when_stopped([&](const GiveUp& stop) { return subscriber.receive(sample, kLong, stop); });
  ends_when_stopped([&](const GiveUp& stop) {
    return subscriber.receive(std::chrono::hours(9), stop) ? Outcome::kDone : Outcome::kInterrupted;
  });
  ends_when_stopped(
      [&](const GiveUp& stop) { return subscriber.wait_for_publishers(1, kLong, stop); });
  ends_when_stopped(
      [&](const GiveUp& stop) { return publisher.wait_for_subscribers(1, kLong, stop); });
  ends_when_stopped([&](const GiveUp& stop) { return queue.put(item, kLong, stop); });
  ends_when_stopped([&](const GiveUp& stop) { return none.get(sample, kLong, stop); });
  ends_when_stopped([&](const GiveUp& stop) { return queue.join(kLong, stop); });
  ends_when_stopped(
      [&](const GiveUp& stop) { return wait_for_topic("none", kLong, stop, participant); });
  ends_when_stopped(
      [&](const GiveUp& stop) { return wait_for_node("none", kLong, stop, participant); });
}

TEST_F(Waiting, ends_with_what_give_up_throws) {
  Subscriber subscriber("topic", {}, participant);
  Queue queue({}, participant);
  Sample sample;
  const GiveUp broken = []() -> bool { throw std::runtime_error("broken"); };
  EXPECT_THROW((void)subscriber.receive(sample, kLong, broken), std::runtime_error);
  EXPECT_THROW((void)subscriber.wait_for_publishers(1, kLong, broken), std::runtime_error);
  EXPECT_THROW((void)queue.get(sample, kLong, broken), std::runtime_error);
  EXPECT_EQ(subscriber.receive(sample, 1ms), Outcome::kTimedOut) << "it is as it was";
}

TEST_F(Waiting, ends_in_time) {
  Subscriber subscriber("topic", {}, participant);
  Sample sample;
  const auto begin = Clock::now();
  EXPECT_FALSE(subscriber.receive(20ms));
  EXPECT_EQ(subscriber.receive(sample, 20ms), Outcome::kTimedOut);
  EXPECT_EQ(subscriber.receive(sample, 20ms, [] { return false; }), Outcome::kTimedOut);
  EXPECT_EQ(subscriber.wait_for_publishers(1, 20ms, [] { return false; }), Outcome::kTimedOut);
  EXPECT_GE(Clock::now() - begin, 80ms);
}

volatile std::sig_atomic_t signals = 0;

// Sends itself signals while it receives, and after many of them a sample.
int receive_through_signals(const std::vector<std::string>& arguments) {
  const Participant participant({.domain = arguments.at(0)});
  struct sigaction action = {};
  action.sa_handler = [](int) { signals = signals + 1; };
  ::sigaction(SIGUSR1, &action, nullptr);
  Publisher publisher("topic", {}, participant);
  Subscriber subscriber("topic", {}, participant);
  REQUIRE_IN_ROLE(subscriber.wait_for_publishers(1, kLong) == Outcome::kDone);
  const pthread_t self = ::pthread_self();
  std::atomic<int> signals_left = 1 << 30;
  std::jthread sender([&] {
    for (; signals_left > 0; --signals_left) {
      ::pthread_kill(self, SIGUSR1);
      std::this_thread::sleep_for(1ms);
    }
    const float one = 1;
    publisher.publish(TensorView::of(&one, {1}));
  });
  Sample sample;
  REQUIRE_IN_ROLE(subscriber.receive(sample, kLong) == Outcome::kInterrupted);
  signals_left = 50;
  REQUIRE_IN_ROLE(subscriber.receive(kLong).has_value());  // goes on after signals
  REQUIRE_IN_ROLE(signals > 0);
  return 0;
}
const bool kGoesOn = add_role("receive_through_signals", receive_through_signals);

TEST_F(Waiting, goes_on_after_signals_unless_they_are_asked_for) {
  EXPECT_EQ(Process("receive_through_signals", {domain.path()}).wait(), 0);
}

}  // namespace
}  // namespace tensorbus
