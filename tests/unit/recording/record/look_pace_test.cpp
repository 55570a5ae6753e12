// When a recorder looks, and when what it finds came.
#include "tensorbus/recording/record/look_pace.hpp"

#include <gtest/gtest.h>

namespace tensorbus::recording {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kMs = 1'000'000;
constexpr std::uint64_t kBegin = 1'000'000 * kMs;

LookPace::Clock::time_point at(std::chrono::nanoseconds time) {
  return LookPace::Clock::time_point(100h + time);
}

TEST(LookPaceTest, it_looks_by_itself_while_samples_come) {
  LookPace pace(kBegin);
  EXPECT_FALSE(pace.changes(at(0s)));
  EXPECT_FALSE(pace.lazy());
  pace.came_at(kBegin + 1, kBegin + 2);
  EXPECT_TRUE(pace.changes(at(1ms)));
  EXPECT_TRUE(pace.lazy());
  EXPECT_FALSE(pace.changes(at(1s)));
  pace.came_at(kBegin + 1, kBegin + 2);
  EXPECT_FALSE(pace.changes(at(1s)));
  EXPECT_FALSE(pace.changes(at(1900ms)));
  EXPECT_TRUE(pace.lazy());
  EXPECT_TRUE(pace.changes(at(2s)));
  EXPECT_FALSE(pace.lazy());
}

TEST(LookPaceTest, a_time_of_publishing_counts_that_lies_behind_the_last_look) {
  LookPace pace(kBegin);
  EXPECT_EQ(pace.came_at(kBegin + 3 * kMs, kBegin + 5 * kMs), kBegin + 3 * kMs);
  pace.found_nothing(kBegin + 5 * kMs);
  EXPECT_EQ(pace.came_at(kBegin + 5 * kMs - 1, kBegin + 6 * kMs), kBegin + 5 * kMs)
      << "the publisher had read the clock, and not yet pushed";
  EXPECT_EQ(pace.came_at(kBegin + 9 * kMs, kBegin + 9 * kMs), kBegin + 9 * kMs);
}

TEST(LookPaceTest, times_of_another_day_do_not_count_and_such_samples_wake) {
  LookPace pace(kBegin);
  pace.came_at(kBegin + 1, kBegin + 2);
  EXPECT_TRUE(pace.changes(at(0s)));
  for (std::uint64_t i = 0; i < 3; ++i)
    EXPECT_EQ(pace.came_at(i, kBegin + 7 * kMs), kBegin + 7 * kMs) << "a replay";
  EXPECT_TRUE(pace.changes(at(1ms)));
  EXPECT_FALSE(pace.lazy());
  pace.came_at(kBegin + 8 * kMs, kBegin + 9 * kMs);
  EXPECT_FALSE(pace.changes(at(9s)));
  pace.came_at(kBegin + 8 * kMs, kBegin + 9 * kMs);
  EXPECT_TRUE(pace.changes(at(11s)));
  EXPECT_TRUE(pace.lazy());
}

TEST(LookPaceTest, a_fast_topic_wakes) {
  LookPace pace(kBegin);
  (void)pace.changes(at(0s));
  for (int i = 0; i < 60; ++i) pace.came_at(kBegin + 1, kBegin + 2);
  EXPECT_FALSE(pace.changes(at(5ms)));
  EXPECT_FALSE(pace.lazy());
  pace.came_at(kBegin + 1, kBegin + 2);
  EXPECT_FALSE(pace.changes(at(900ms)));
  pace.came_at(kBegin + 1, kBegin + 2);
  EXPECT_TRUE(pace.changes(at(2s)));
  EXPECT_TRUE(pace.lazy());
}

TEST(LookPaceTest, a_publisher_that_was_stopped_for_a_moment_changes_nothing) {
  LookPace pace(kBegin + 10 * kMs);
  for (int i = 0; i < 10; ++i) {
    pace.came_at(kBegin, kBegin + 20 * kMs);
    pace.came_at(kBegin + 15 * kMs, kBegin + 20 * kMs);
  }
  EXPECT_TRUE(pace.changes(at(0s)));
  EXPECT_TRUE(pace.lazy());
}

}  // namespace
}  // namespace tensorbus::recording
