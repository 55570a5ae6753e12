// What waits to be written, and what leaves without.
#include "tensorbus/recording/record/record_buffer.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace tensorbus::recording {
namespace {

constexpr std::uint64_t kHour = std::uint64_t{3600} * 1'000'000'000;

RecordedSample sample_on(const std::string& topic, std::uint64_t time) {
  return {.publisher = std::make_shared<RecordedPublisher>(RecordedPublisher{topic, "", {}}),
          .has_sample = true,
          .bytes = 1,
          .log_time = time};
}

void put(RecordBuffer& buffer, RecordedSample sample) { ASSERT_TRUE(buffer.put(sample, false)); }

TEST(ARecordBuffer, that_is_stopped_says_how_many_samples_still_waited) {
  RecordBuffer buffer(1'000);
  put(buffer, sample_on("topic", 1));
  put(buffer, {.publisher = sample_on("topic", 2).publisher, .lost = 7});  // counted where it was
  put(buffer, sample_on("topic", 3));
  EXPECT_EQ(buffer.stop(), 2U);
  EXPECT_EQ(buffer.bytes(), 0U);
}

TEST(ARecordBuffer, of_snapshots_loses_of_one_topic_where_that_has_too_many) {
  RecordBuffer buffer(1'000, kHour);
  std::vector<std::uint64_t> kept;
  for (std::uint64_t time = 1; time <= 200; ++time) {
    const bool is_slow = time % 10 == 0;
    put(buffer, sample_on(is_slow ? "slow" : "fast", time));
    if (is_slow || time > 71) kept.push_back(time);  // 64 of the others are before
  }
  const std::uint64_t releases = buffer.releases();
  EXPECT_NE(buffer.wait_for_release(releases, "fast"), releases);
  EXPECT_EQ(buffer.bytes(), kept.size());
  ASSERT_EQ(buffer.request_snapshot(200), 1U);
  const auto snapshot = buffer.take_snapshot();
  ASSERT_TRUE(snapshot);
  std::vector<std::uint64_t> times;
  for (const RecordedSample& one : *snapshot) times.push_back(one.log_time);
  EXPECT_EQ(times, kept);
}

TEST(ARecordBuffer, of_snapshots_loses_an_eighth_of_a_topic_that_has_too_many_and_waits_for_none) {
  RecordBuffer buffer(10'000, kHour);
  for (std::uint64_t time = 1; time <= 1'600; ++time)
    put(buffer, sample_on(time % 2 == 0 ? "one" : "other", time));
  const std::uint64_t releases = buffer.releases();
  EXPECT_EQ(buffer.wait_for_release(releases, "one"), releases + 100);
  EXPECT_EQ(buffer.bytes(), 1'500U);
  EXPECT_EQ(buffer.wait_for_release(releases + 100, "none"), releases + 100);
}

}  // namespace
}  // namespace tensorbus::recording
