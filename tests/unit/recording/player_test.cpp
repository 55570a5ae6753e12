// Playing recordings whose messages have times that no test has to wait for.
#include "tensorbus/recording/player.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tensorbus/bus/listing.hpp"
#include "tensorbus/link/lease/mirror_origin.hpp"
#include "tensorbus/recording/play/play_time.hpp"
#include "tests/unit/bus/test_support.hpp"
#include "tests/unit/tensor/mcap/recording_test_support.hpp"

namespace tensorbus {
namespace {

using namespace tensorbus::testing;

constexpr std::uint64_t kHour = 3'600'000'000'000;
constexpr const char* kRecorded = "00112233445566778899aabbccddeeff.7";
const std::string kPixels(5000, 'x');

using Numbers = std::vector<std::uint64_t>;

TEST(PlayTimeTest, each_due_time_is_counted_from_the_start) {
  recording::PlayTime time(2.0);
  const recording::PlayTime::TimePoint start{};
  time.start(1'000, start);
  EXPECT_EQ(time.due(1'000), start);
  EXPECT_EQ(time.due(3'000), start + 1'000ns);
  EXPECT_EQ(time.due(0), start);
  EXPECT_EQ(time.at(start + 500ns), 2'000U);
  time.set_rate(0.5, start + 500ns);
  EXPECT_EQ(time.at(start + 500ns), 2'000U);
  EXPECT_EQ(time.due(3'000), start + 2'500ns);
  EXPECT_LT(time.due(UINT64_MAX), recording::PlayTime::TimePoint::max());
  EXPECT_EQ(recording::PlayTime(1e300).at(start + 1s), 1'000'000'000'000'000'000U);
}

class PlayerTest : public ::testing::Test {
 protected:
  // Records a message each hour, on "one", with the number i + first.
  void record(std::uint64_t count, std::uint64_t first = 0, const tensor::mcap::TextMap& more = {},
              Device published_on = Device::host()) {
    tensor::mcap::RecordingWriter writer(file.path(), true, {{"version", "test"}});
    tensor::mcap::TextMap metadata{{"publisher", kRecorded}, {"node", "camera"}, {"depth", "4"}};
    metadata.insert(more.begin(), more.end());
    const auto channel = writer.add_channel("one", "robot.One\nlabel: str", metadata);
    for (std::uint64_t i = 0; i < count; ++i) {
      auto message = test::message_of(channel, first + i, kPixels, "\xc0");
      message.log_time = (i + 1) * kHour;
      message.head.tensors[0].published_on = published_on;
      writer.add_message(message);
    }
    writer.finish();
  }
  void damage_second() const {
    const std::string bytes = file.bytes();
    const platform::Fd fd(::open(file.path().c_str(), O_WRONLY | O_CLOEXEC));
    const std::size_t at = bytes.find("TBR1", bytes.find("TBR1") + 1);
    ASSERT_EQ(::pwrite(fd.get(), "x", 1, static_cast<off_t>(at)), 1);
  }
  recording::Player play(PlayerOptions options) const {
    options.domain = domain.path();
    return recording::Player(recording::Recording(file.path()), options);
  }
  bus::Subscriber subscriber(const std::string& topic = "one",
                             SubscriberOptions options = {}) const {
    return bus::Subscriber(topic, options, borrower);
  }
  static bus::Sample receive(bus::Subscriber& subscriber) {
    bus::Sample sample;
    EXPECT_EQ(subscriber.receive(sample, kLong), Outcome::kDone);
    return sample;
  }
  static Numbers numbers_of(bus::Subscriber& subscriber, std::size_t count) {
    Numbers numbers;
    while (numbers.size() < count) numbers.push_back(receive(subscriber).header().sequence);
    return numbers;
  }

  const test::NamelessFile file;
  const FreshDomain domain;
  const bus::ParticipantRef borrower = domain.join();
};

TEST_F(PlayerTest, publishers_are_as_they_were) {
  record(2, 40, {{"history", "3"}, {"reliable", "true"}});
  const recording::Player player = play({.remap = {{"one", "other"}}, .paused = true});
  const auto listed = bus::list_publishers(borrower);
  ASSERT_EQ(listed.size(), 1U);
  EXPECT_EQ(listed[0].topic, "other");
  EXPECT_EQ(listed[0].node, "camera");
  EXPECT_EQ(listed[0].type.definition(), "robot.One\nlabel: str");
  EXPECT_EQ(listed[0].depth, 4U);
  EXPECT_EQ(listed[0].history, 3U);
  EXPECT_TRUE(listed[0].reliable);
  EXPECT_EQ(listed[0].origin, kRecorded);
  EXPECT_EQ(listed[0].machine.rfind("replay:", 0), 0U);
}

TEST_F(PlayerTest, samples_are_as_they_were_and_lie_in_the_file) {
  record(3, 40);
  recording::Player player = play({.paused = true});
  bus::Subscriber images = subscriber();
  ASSERT_EQ(player.wait_for_subscribers(kLong), Outcome::kDone);
  player.step(3);
  for (std::uint64_t number = 40; number < 43; ++number) {
    const bus::Sample sample = receive(images);
    EXPECT_EQ(sample.header().sequence, number);
    EXPECT_EQ(sample.header().timestamp_ns, 900 + number);
    EXPECT_EQ(sample.header().fingerprint, 7U);
    EXPECT_EQ(sample.mirrored()->publisher, kRecorded);
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(sample.tensor().data()), kPixels.size()),
              kPixels);
  }
  EXPECT_EQ(images.stats().missed, 0U);
  EXPECT_EQ(player.wait(kLong), Outcome::kDone);
  const PlayerStats stats = player.stats();
  EXPECT_EQ(stats.messages, 3U);
  EXPECT_EQ(stats.bytes_copied, 0U);
  EXPECT_TRUE(stats.ended);
  EXPECT_EQ(stats.position_ns, 3 * kHour);
}

TEST_F(PlayerTest, steps_are_counted) {
  record(5);
  recording::Player player = play({.paused = true});
  bus::Subscriber images = subscriber();
  ASSERT_EQ(player.wait_for_subscribers(kLong), Outcome::kDone);
  player.step(1);
  EXPECT_EQ(numbers_of(images, 1), Numbers({0}));
  player.step(2);
  EXPECT_EQ(numbers_of(images, 2), Numbers({1, 2}));
  EXPECT_TRUE(eventually([&] { return player.stats().messages == 3; }));
  EXPECT_EQ(player.stats().left, 2U);
  EXPECT_EQ(player.stats().position_ns, 3 * kHour);
  EXPECT_EQ(player.wait(0ns), Outcome::kTimedOut);
}

TEST_F(PlayerTest, the_rate_can_be_changed_while_it_waits) {
  record(5);
  recording::Player player = play({.rate = 1e-3, .paused = true});
  bus::Subscriber images = subscriber();
  ASSERT_EQ(player.wait_for_subscribers(kLong), Outcome::kDone);
  player.resume();
  EXPECT_EQ(numbers_of(images, 1), Numbers({0}));
  player.set_rate(1e9);
  EXPECT_EQ(numbers_of(images, 4), Numbers({1, 2, 3, 4}));
  EXPECT_EQ(player.wait(kLong), Outcome::kDone);
  EXPECT_EQ(code_of([&] { player.set_rate(0); }), Code::kInvalidArgument);
}

TEST_F(PlayerTest, the_numbers_of_a_loop_go_on) {
  record(3, 10, {{"reliable", "true"}});
  recording::Player player = play({.rate = 1e9, .loop = true, .paused = true});
  bus::Subscriber images = subscriber("one", {.reliable = true});
  ASSERT_EQ(player.wait_for_subscribers(kLong), Outcome::kDone);
  player.resume();
  EXPECT_EQ(numbers_of(images, 7), Numbers({10, 11, 12, 13, 14, 15, 16}));
  EXPECT_GE(player.stats().loops, 2U);
  player.close();
}

TEST_F(PlayerTest, one_that_waits_for_room_obeys) {
  record(40, 0, {{"reliable", "true"}});
  recording::Player player = play({.rate = 1e9, .paused = true});
  bus::Subscriber images = subscriber("one", {.depth = 2, .reliable = true});
  ASSERT_EQ(player.wait_for_subscribers(kLong), Outcome::kDone);
  player.resume();
  EXPECT_TRUE(eventually([&] { return player.stats().messages == 2; }));
  player.pause();
  EXPECT_EQ(numbers_of(images, 2), Numbers({0, 1}));
  player.step(1);
  EXPECT_TRUE(eventually([&] { return player.stats().messages >= 3; }));
  player.resume();
  EXPECT_TRUE(eventually([&] { return player.stats().messages >= 4; }));
  player.close();  // while it waits
  EXPECT_LT(player.stats().messages, 40U);
}

TEST_F(PlayerTest, what_cannot_be_read_is_left_out) {
  record(3);
  damage_second();
  recording::Player player = play({.rate = 1e9, .paused = true});
  bus::Subscriber images = subscriber();
  ASSERT_EQ(player.wait_for_subscribers(kLong), Outcome::kDone);
  player.resume();
  EXPECT_EQ(numbers_of(images, 2), Numbers({0, 2}));
  EXPECT_EQ(player.wait(kLong), Outcome::kDone);
  EXPECT_EQ(player.stats().unreadable, 1U);
  EXPECT_NE(player.stats().error.find("message 1"), std::string::npos) << player.stats().error;
  player.close();  // this is no failure
}

TEST_F(PlayerTest, a_loop_leaves_out_what_cannot_be_read_in_each_turn) {
  record(2, 0, {{"reliable", "true"}});
  damage_second();
  recording::Player player = play({.rate = 1e9, .loop = true, .paused = true});
  bus::Subscriber images = subscriber();
  ASSERT_EQ(player.wait_for_subscribers(kLong), Outcome::kDone);
  player.resume();
  EXPECT_EQ(numbers_of(images, 4), Numbers({0, 1, 2, 3}));
  player.close();
}

TEST_F(PlayerTest, a_loop_ends_when_nothing_can_be_read_any_more) {
  record(2);
  recording::Player player = play({.rate = 1e9, .loop = true, .paused = true});
  player.step(3);
  EXPECT_TRUE(eventually([&] { return player.stats().messages == 3; }));
  ASSERT_EQ(::truncate(file.path().c_str(), 100), 0);
  player.resume();
  EXPECT_EQ(player.wait(kLong), Outcome::kDone);
  EXPECT_GE(player.stats().unreadable, 2U);
}

TEST_F(PlayerTest, the_clock_says_what_time_it_is_in_the_recording) {
  record(3);
  recording::Player player = play({.paused = true, .clock = "clock"});
  bus::Subscriber clock = subscriber("clock");
  const auto time_in = [&](const bus::Sample& sample) {
    return static_cast<std::uint64_t>(sample.fields().at("time_ns").as<std::int64_t>());
  };
  const bus::Sample first = receive(clock);
  EXPECT_EQ(time_in(first), kHour);
  EXPECT_TRUE(first.fields().at("paused").as<bool>());
  EXPECT_EQ(first.mirrored(), nullptr);
  player.step(2);
  while (time_in(receive(clock)) != 2 * kHour) {
  }
  player.set_rate(1e9);
  player.resume();
  while (time_in(receive(clock)) != 3 * kHour) {
  }
}

class PlayerOfAClockTest : public PlayerTest {
 protected:
  // Records "one" and, by two publishers, messages with these fields on "clock".
  void record_beside(const Value& fields) {
    const auto bytes = fields.encode();
    const std::string_view packed(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    tensor::mcap::RecordingWriter writer(file.path(), true, {{"version", "test"}});
    const auto one = writer.add_channel("one", "", {});
    const std::array clocks{writer.add_channel("clock", "", {{"publisher", kRecorded}}),
                            writer.add_channel("clock", "", {})};
    for (std::uint64_t i = 0; i < 4; ++i) {
      auto time = test::message_of(clocks[i % 2], i, "", packed);
      time.head.tensors.clear();
      time.run_of.clear();
      writer.add_message(time);
      writer.add_message(test::message_of(one, i, kPixels, "\xc0"));
    }
    writer.finish();
  }
};

const Value kTime = Value::Map{{"time_ns", 5}, {"rate", 1.0}, {"paused", false}};

TEST_F(PlayerOfAClockTest, a_recorded_clock_is_left_out_beside_its_own) {
  record_beside(kTime);
  recording::Player player = play({.rate = 1e9, .paused = true, .clock = "clock"});
  const auto listed = bus::list_publishers(borrower);
  EXPECT_EQ(std::ranges::count(listed, "clock", &PublisherInfo::topic), 1);
  EXPECT_EQ(player.stats().left, 4U);
  player.resume();
  EXPECT_EQ(player.wait(kLong), Outcome::kDone);
  EXPECT_EQ(player.stats().messages, 4U);
  EXPECT_EQ(player.stats().unreadable, 0U);
}

TEST_F(PlayerOfAClockTest, a_recorded_clock_is_played_on_another_topic) {
  record_beside(kTime);
  EXPECT_EQ(play({.paused = true}).stats().left, 8U);
  EXPECT_EQ(play({.paused = true, .clock = "time"}).stats().left, 8U);
  EXPECT_EQ(play({.remap = {{"clock", "old"}}, .paused = true, .clock = "clock"}).stats().left, 8U);
  EXPECT_EQ(play({.remap = {{"clock", "time"}}, .paused = true, .clock = "time"}).stats().left, 4U);
  EXPECT_EQ(play({.topics = {"clock"}, .paused = true, .clock = "clock"}).stats().left, 0U);
}

TEST_F(PlayerOfAClockTest, data_on_the_topic_of_the_clock_is_refused) {
  for (const Value& fields :
       {Value(5), Value(Value::Map{{"time_ns", "now"}}), Value(Value::Map{{"rate", 1.0}}),
        Value(Value::Map{{"time_ns", 5}, {"speed", 2.0}})}) {
    record_beside(fields);
    EXPECT_EQ(code_of([&] { (void)play({.paused = true, .clock = "clock"}); }),
              Code::kInvalidArgument);
  }
  record_beside(kTime);
  EXPECT_EQ(code_of([&] { (void)play({.paused = true, .clock = "one"}); }), Code::kInvalidArgument);
  EXPECT_EQ(
      code_of([&] { (void)play({.remap = {{"one", "clock"}}, .paused = true, .clock = "clock"}); }),
      Code::kInvalidArgument);
  const recording::Player other = play({.topics = {"clock"}, .paused = true, .clock = "one"});
  EXPECT_EQ(other.stats().left, 4U);
}

TEST_F(PlayerTest, a_window_of_time_is_played) {
  record(5);
  recording::Player player =
      play({.rate = 1e9, .paused = true, .begin_ns = 2 * kHour, .end_ns = 4 * kHour});
  bus::Subscriber images = subscriber();
  ASSERT_EQ(player.wait_for_subscribers(kLong), Outcome::kDone);
  player.resume();
  EXPECT_EQ(numbers_of(images, 2), Numbers({1, 2}));
  EXPECT_EQ(player.wait(kLong), Outcome::kDone);
  EXPECT_EQ(images.stats().missed, 0U);
}

TEST_F(PlayerTest, tensors_of_gpus_are_lent_from_the_file_to_whoever_wants_main_memory) {
  record(2, 0, {}, Device::cuda(1));
  for (const std::optional<Device> device : {std::optional<Device>(), {Device::host()}}) {
    recording::Player player = play({.paused = true, .device = device});
    bus::Subscriber images = subscriber();
    ASSERT_EQ(player.wait_for_subscribers(kLong), Outcome::kDone);
    player.step(1);
    const bus::Sample sample = receive(images);
    EXPECT_TRUE(sample.tensor().device().is_host());
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(sample.tensor().data()), kPixels.size()),
              kPixels);
    EXPECT_EQ(player.stats().bytes_copied, 0U);
  }
}

TEST_F(PlayerTest, samples_outlive_the_player) {
  record(2);
  bus::Sample kept;
  {
    recording::Player player = play({.paused = true});
    bus::Subscriber images = subscriber();
    ASSERT_EQ(player.wait_for_subscribers(kLong), Outcome::kDone);
    player.step(1);
    kept = receive(images);
  }
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(kept.tensor().data()), kPixels.size()),
            kPixels);
}

TEST_F(PlayerTest, mistakes_are_told) {
  record(2);
  EXPECT_EQ(code_of([&] { (void)play({.topics = {"two"}}); }), Code::kInvalidArgument);
  EXPECT_EQ(code_of([&] { (void)play({.remap = {{"two", "one"}}}); }), Code::kInvalidArgument);
  EXPECT_EQ(code_of([&] { (void)play({.rate = 0}); }), Code::kInvalidArgument);
  recording::Player player = play({.paused = true});
  const recording::Player other = std::move(player);
  EXPECT_EQ(code_of([&] { player.pause(); }), Code::kClosed);
}

TEST_F(PlayerTest, a_recording_without_messages_has_ended) {
  record(0);
  recording::Player player = play({});
  EXPECT_EQ(player.wait(kLong), Outcome::kDone);
  EXPECT_EQ(player.stats().messages, 0U);
}

}  // namespace
}  // namespace tensorbus
