#include "tensorbus/memory/ranges.hpp"

#include <gtest/gtest.h>

#include <random>

namespace tensorbus::memory {

void PrintTo(const Range& range, std::ostream* out) {
  *out << "[" << range.begin << ", " << range.end << ")";
}

namespace {

using Ranges = std::vector<Range>;

constexpr Range kAll{0, 100};

TEST(RangeSet, is_empty_at_first) {
  const RangeSet set;
  EXPECT_EQ(set.bytes(), 0U);
  EXPECT_EQ(set.present_in(kAll), Ranges{});
  EXPECT_EQ(set.missing_in(kAll), Ranges{kAll});
}

TEST(RangeSet, joins_ranges_that_touch_or_overlap) {
  RangeSet set;
  set.add({10, 20});
  set.add({30, 40});
  set.add({20, 30});
  EXPECT_EQ(set.present_in(kAll), (Ranges{{10, 40}}));
  set.add({5, 15});
  set.add({35, 50});
  set.add({0, 60});
  EXPECT_EQ(set.present_in(kAll), (Ranges{{0, 60}}));
  EXPECT_EQ(set.bytes(), 60U);
}

TEST(RangeSet, adds_nothing_twice) {
  RangeSet set;
  set.add({10, 20});
  set.add({10, 20});
  set.add({12, 13});
  EXPECT_EQ(set.bytes(), 10U);
}

TEST(RangeSet, is_split_by_a_removal) {
  RangeSet set;
  set.add({10, 50});
  set.remove({20, 30});
  EXPECT_EQ(set.present_in(kAll), (Ranges{{10, 20}, {30, 50}}));
  EXPECT_EQ(set.missing_in(kAll), (Ranges{{0, 10}, {20, 30}, {50, 100}}));
  EXPECT_EQ(set.bytes(), 30U);
}

TEST(RangeSet, tells_only_what_lies_in_the_question) {
  RangeSet set;
  set.add({10, 50});
  EXPECT_EQ(set.present_in({20, 30}), (Ranges{{20, 30}}));
  EXPECT_EQ(set.missing_in({20, 30}), Ranges{});
  EXPECT_EQ(set.missing_in({40, 60}), (Ranges{{50, 60}}));
  EXPECT_EQ(set.present_in({50, 60}), Ranges{});
}

TEST(RangeSet, takes_an_empty_range_for_nothing) {
  RangeSet set;
  set.add({5, 5});
  EXPECT_EQ(set.bytes(), 0U);
  set.add({0, 10});
  set.remove({5, 5});
  EXPECT_EQ(set.present_in(kAll), (Ranges{{0, 10}}));
  EXPECT_EQ(set.missing_in({5, 5}), Ranges{});
  EXPECT_EQ(set.present_in({5, 5}), Ranges{});
}

Ranges runs_of(const std::vector<bool>& bytes, Range range, bool wanted) {
  Ranges runs;
  for (std::size_t at = range.begin; at < range.end; ++at) {
    if (bytes[at] != wanted) continue;
    if (!runs.empty() && runs.back().end == at)
      ++runs.back().end;
    else
      runs.push_back({at, at + 1});
  }
  return runs;
}

TEST(RangeSet, does_what_one_bit_for_each_byte_would_do) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    constexpr std::size_t kSize = 64;
    std::vector<bool> model(kSize);
    RangeSet set;
    for (int i = 0; i < 60; ++i) {
      std::size_t begin = random() % (kSize + 1);
      std::size_t end = random() % (kSize + 1);
      if (begin > end) std::swap(begin, end);
      const Range range{begin, end};
      const bool adds = random() % 2 == 0;
      adds ? set.add(range) : set.remove(range);
      std::fill(model.begin() + static_cast<std::ptrdiff_t>(begin),
                model.begin() + static_cast<std::ptrdiff_t>(end), adds);

      const std::size_t from = random() % kSize;
      const Range asked{from, from + random() % (kSize - from + 1)};
      ASSERT_EQ(set.present_in(asked), runs_of(model, asked, true));
      ASSERT_EQ(set.missing_in(asked), runs_of(model, asked, false));
      ASSERT_EQ(set.bytes(), std::count(model.begin(), model.end(), true));
    }
  }
}

}  // namespace
}  // namespace tensorbus::memory
