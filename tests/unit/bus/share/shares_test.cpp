#include "tensorbus/bus/share/shares.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace tensorbus::bus {
namespace {

using namespace std::chrono_literals;
constexpr Shares::Clock::time_point kNever = Shares::Clock::time_point::max();

TEST(SharesThatEnd, say_when_they_end_before_all_others) {
  Shares shares;
  const auto now = Shares::Clock::now();
  EXPECT_FALSE(shares.add({}, 0, kNever).ends_first);
  EXPECT_TRUE(shares.add({}, 0, now + 1h).ends_first);
  for (int i = 0; i < 1000; ++i) EXPECT_FALSE(shares.add({}, 0, now + 2h).ends_first);
  const Shares::Added first = shares.add({}, 0, now + 30min);
  EXPECT_TRUE(first.ends_first);
  EXPECT_EQ(shares.end_overdue(), now + 30min);
  shares.close(first.name.number);
  EXPECT_EQ(shares.end_overdue(), now + 1h);
}

TEST(SharesThatEnd, end_when_they_are_due_and_no_others_do) {
  Shares shares;
  const auto now = Shares::Clock::now();
  const Shares::Added lasting = shares.add({}, 0, kNever);
  EXPECT_FALSE(shares.end_overdue());
  const Shares::Added later = shares.add({}, 0, now + 1h);
  std::vector<Shares::Added> due;
  for (int i = 0; i < 3; ++i) due.push_back(shares.add({}, 0, now - 1ms));
  EXPECT_EQ(shares.end_overdue(), now + 1h);
  for (const Shares::Added& ended : due) EXPECT_FALSE(shares.open(ended.name.number));
  EXPECT_TRUE(shares.open(later.name.number));
  EXPECT_TRUE(shares.open(lasting.name.number));
  shares.close(later.name.number);
  shares.close(later.name.number);
  EXPECT_FALSE(shares.end_overdue());
}

TEST(SharesThatEnd, end_by_their_uses_too) {
  Shares shares;
  const Shares::Added once = shares.add({}, 1, Shares::Clock::now() + 1h);
  shares.count_use(once.name.number);
  shares.end_if_spent(once.name.number);
  EXPECT_FALSE(shares.open(once.name.number));
  EXPECT_FALSE(shares.end_overdue());
}

}  // namespace
}  // namespace tensorbus::bus
