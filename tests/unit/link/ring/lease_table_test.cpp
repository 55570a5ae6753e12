#include "tensorbus/link/ring/lease_table.hpp"

#include <gtest/gtest.h>

#include <iterator>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace tensorbus::link {
namespace {

TEST(LeaseTable, a_lease_comes_back_once) {
  LeaseTable<std::string> table(2);
  const std::uint64_t token = table.issue("frame");
  EXPECT_EQ(table.outstanding(), 1U);
  EXPECT_EQ(table.take_back(token), "frame");
  EXPECT_EQ(table.take_back(token), std::nullopt);
  EXPECT_EQ(table.outstanding(), 0U);
}

TEST(LeaseTable, is_full_at_its_capacity) {
  LeaseTable<int> table(3);
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(table.full());
    table.issue(i);
  }
  EXPECT_TRUE(table.full());
}

TEST(LeaseTable, a_stale_token_does_not_return_the_lease_that_came_after_it) {
  LeaseTable<int> table(1);
  const std::uint64_t stale = table.issue(1);
  table.take_back(stale);
  const std::uint64_t fresh = table.issue(2);
  EXPECT_NE(stale, fresh);
  EXPECT_EQ(table.take_back(stale), std::nullopt);
  EXPECT_EQ(table.take_back(fresh), 2);
}

TEST(LeaseTable, forged_tokens_are_refused) {
  LeaseTable<int> table(4);
  const std::uint64_t token = table.issue(7);
  std::mt19937_64 random(1);
  for (int i = 0; i < 100'000; ++i) {
    const std::uint64_t forged = random() >> (random() % 64);
    if (forged == token) continue;
    EXPECT_EQ(table.take_back(forged), std::nullopt);
  }
  EXPECT_EQ(table.take_back(token), 7);
}

TEST(LeaseTable, a_table_without_rows_is_full_and_takes_nothing_back) {
  LeaseTable<int> table(0);
  EXPECT_TRUE(table.full());
  EXPECT_EQ(table.take_back(std::uint64_t{1} << 32), std::nullopt);
}

TEST(LeaseTable, keeps_its_books_over_a_long_random_life) {
  LeaseTable<int> table(16);
  std::map<std::uint64_t, int> out;
  std::mt19937_64 random(2);
  for (int i = 0; i < 50'000; ++i) {
    if (random() % 2 == 0 && !table.full()) {
      EXPECT_TRUE(out.emplace(table.issue(i), i).second);
    } else if (!out.empty()) {
      const auto at = std::next(out.begin(), static_cast<std::ptrdiff_t>(random() % out.size()));
      EXPECT_EQ(table.take_back(at->first), at->second);
      out.erase(at);
    }
    ASSERT_EQ(table.outstanding(), out.size());
  }
}

}  // namespace
}  // namespace tensorbus::link
