#include "tensorbus/platform/clock.hpp"

#include <gtest/gtest.h>

namespace tensorbus::platform {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

TEST(Deadline, allows_no_more_than_a_slice_at_a_time) {
  const Deadline deadline(1h);
  EXPECT_FALSE(deadline.passed());
  EXPECT_EQ(deadline.remaining(100ms), 100ms);
}

TEST(Deadline, allows_no_more_than_what_is_left) {
  const Deadline deadline(1h);
  EXPECT_LE(deadline.remaining(2h), 1h);
  EXPECT_GT(deadline.remaining(2h), 0ns);
}

TEST(Deadline, of_no_time_has_passed) {
  for (const nanoseconds timeout : {nanoseconds(0), nanoseconds(-1), nanoseconds::min()}) {
    const Deadline deadline(timeout);
    EXPECT_TRUE(deadline.passed()) << timeout.count();
    EXPECT_EQ(deadline.remaining(1s), 0ns) << timeout.count();
  }
}

TEST(Deadline, of_a_huge_timeout_never_comes) {
  const Deadline deadline(nanoseconds::max());
  EXPECT_FALSE(deadline.passed());
  EXPECT_EQ(deadline.remaining(nanoseconds::max()), nanoseconds::max());
}

TEST(WallClock, tells_the_time_of_the_system_in_nanoseconds) {
  const auto now = [] {
    return static_cast<std::uint64_t>(
        nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count());
  };
  const auto before = now();
  const auto here = wall_clock_ns();
  const auto after = now();
  if (before > after) GTEST_SKIP() << "the clock was set back just now";
  EXPECT_LE(before, here);
  EXPECT_LE(here, after);
}

}  // namespace
}  // namespace tensorbus::platform
