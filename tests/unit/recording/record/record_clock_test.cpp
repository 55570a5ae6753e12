// The time of publishing that a recorder writes for a sample.
#include "tensorbus/recording/record/record_clock.hpp"

#include <gtest/gtest.h>

namespace tensorbus::recording {
namespace {

constexpr std::int64_t kMillisecond = 1'000'000;

TEST(WallOffsetTest, does_not_change_when_the_thread_is_interrupted_between_the_clocks) {
  WallOffset offset;
  const std::int64_t first = offset.within(5 * kMillisecond, 5 * kMillisecond + 40);
  EXPECT_GE(first, 5 * kMillisecond);
  EXPECT_LE(first, 5 * kMillisecond + 40);
  EXPECT_EQ(offset.within(5 * kMillisecond + 3, 8 * kMillisecond), first) << "after the wall clock";
  EXPECT_EQ(offset.within(2 * kMillisecond, 5 * kMillisecond + 3), first)
      << "before the wall clock";
}

TEST(WallOffsetTest, follows_a_step_of_the_wall_clock) {
  WallOffset offset;
  for (const std::int64_t step :
       {5 * kMillisecond, -3600'000 * kMillisecond, 0 * kMillisecond, 86'400'000 * kMillisecond}) {
    const std::int64_t found = offset.within(step, step + 40);
    EXPECT_GE(found, step - 1000);
    EXPECT_LE(found, step + 1040);
  }
}

TEST(RecordClockTest, wall_times_keep_their_distances) {
  RecordClock clock;
  for (int i = 0; i < 100; ++i) clock.at_wall_time(0);  // the first may be interrupted
  const std::uint64_t wall = platform::wall_clock_ns();
  const std::uint64_t first = clock.at_wall_time(wall);
  for (std::uint64_t i = 1; i < 100'000; ++i) ASSERT_EQ(clock.at_wall_time(wall + i), first + i);
}

}  // namespace
}  // namespace tensorbus::recording
