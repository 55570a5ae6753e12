// A recording is published again.

#include "support.hpp"

namespace tensorbus {
namespace {

using namespace tensorbus::testing;

constexpr std::int64_t kRecordedMessages = 5;

class APlayer : public ::testing::Test {
 protected:
  void SetUp() override {
    Recorder recorder(
        {.path = path, .topics = {"numbers"}, .reliable = true, .domain = domain.path()});
    Publisher numbers("numbers", {.reliable = true, .node = "counter"}, participant);
    ASSERT_EQ(numbers.wait_for_subscribers(1, kLong), Outcome::kDone);
    for (std::int64_t i = 0; i < kRecordedMessages; ++i) {
      Loan loan = numbers.loan<float>({1000});
      fill(loan.as<float>(), static_cast<float>(i));
      numbers.publish(std::move(loan));
    }
    recorder.close();
  }
  Player play(PlayerOptions options) const {
    options.domain = domain.path();
    return Player(Recording(path), options);
  }

  const FreshDomain domain;
  const FreshDomain folder;
  const std::string path = folder.path() + "/run.mcap";
  Participant participant = domain.join();
};

TEST_F(APlayer, publishes_what_was_recorded_from_the_file) {
  Subscriber subscriber("numbers", {.depth = 8}, participant);
  Player player = play({.rate = 1e9, .paused = true});
  ASSERT_EQ(player.wait_for_subscribers(kLong), Outcome::kDone);
  EXPECT_TRUE(player.stats().paused);
  EXPECT_EQ(player.stats().left, static_cast<std::uint64_t>(kRecordedMessages));
  player.resume();
  for (std::uint64_t i = 0; i < kRecordedMessages; ++i) {
    const auto sample = subscriber.receive(kLong);
    ASSERT_TRUE(sample);
    EXPECT_TRUE(is_filled(sample->tensor().as<float>(), static_cast<float>(i)));
    EXPECT_EQ(sample->header().sequence, i);
  }
  EXPECT_EQ(player.wait(kLong), Outcome::kDone);
  const PlayerStats stats = player.stats();
  EXPECT_EQ(stats.messages, static_cast<std::uint64_t>(kRecordedMessages));
  EXPECT_EQ(stats.bytes_copied, 0U);
  EXPECT_TRUE(stats.ended);
  EXPECT_EQ(stats.error, "");
  player.close();
  player.close();
}

TEST_F(APlayer, steps_and_renames_and_says_what_time_it_is) {
  Subscriber subscriber("again", {.depth = 8}, participant);
  Subscriber clock("clock", {}, participant);
  Player player = play({.remap = {{"numbers", "again"}}, .paused = true, .clock = "clock"});
  ASSERT_EQ(player.wait_for_subscribers(kLong), Outcome::kDone);
  EXPECT_TRUE(clock.receive(kLong));
  player.step(2);
  EXPECT_TRUE(subscriber.receive(kLong));
  EXPECT_TRUE(subscriber.receive(kLong));
  player.set_rate(3.0);
  EXPECT_EQ(player.stats().rate, 3.0);
  EXPECT_EQ(player.wait(std::chrono::nanoseconds(0)), Outcome::kTimedOut);
  player.pause();
  player.close();
  EXPECT_FALSE(subscriber.receive(std::chrono::milliseconds(1)));
}

TEST_F(APlayer, names_what_is_wrong) {
  EXPECT_EQ(code_of([&] { play({.topics = {"other"}}); }), Code::kInvalidArgument);
  EXPECT_EQ(code_of([&] { play({.rate = -1}); }), Code::kInvalidArgument);
  EXPECT_EQ(code_of([&] { play({.topics = {std::string("a\0b", 3)}}); }), Code::kInvalidArgument);
  Player player = play({.paused = true});
  EXPECT_EQ(code_of([&] { player.set_rate(0); }), Code::kInvalidArgument);
  const Player taken = std::move(player);
  EXPECT_EQ(code_of([&] { player.pause(); }), Code::kClosed);
}

}  // namespace
}  // namespace tensorbus
