#include <gtest/gtest.h>

#include <numeric>
#include <tensorbus/values/dims.hpp>
#include <vector>

namespace tensorbus {
namespace {

// One that lives in the object, the largest that does, and two that do not.
const std::size_t kCounts[] = {0, 1, 6, 7, kMaxDims};

Dims counted(std::size_t count) {
  Dims dims(count);
  std::iota(dims.begin(), dims.end(), 1);
  return dims;
}

TEST(Dims, are_zero_until_they_are_set) {
  for (const std::size_t count : kCounts) {
    const Dims dims(count);
    EXPECT_EQ(dims.size(), count);
    EXPECT_EQ(dims.empty(), count == 0);
    for (const std::int64_t value : dims) EXPECT_EQ(value, 0);
  }
}

TEST(Dims, hold_what_they_are_made_of) {
  const Dims dims{3, -1, 4};
  EXPECT_EQ(std::vector<std::int64_t>(dims.begin(), dims.end()),
            (std::vector<std::int64_t>{3, -1, 4}));
  const std::vector<std::int64_t> many{1, 2, 3, 4, 5, 6, 7, 8};
  EXPECT_EQ(Dims(std::span(many)), (Dims{1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(Dims{2}.size(), 1U) << "braces are values, not a count";
}

TEST(Dims, are_copied_deeply) {
  for (const std::size_t count : kCounts) {
    const Dims original = counted(count);
    Dims copy = original;
    EXPECT_EQ(copy, original);
    for (std::int64_t& value : copy) value = -value;
    EXPECT_EQ(original, counted(count));
    copy = original;
    EXPECT_EQ(copy, original);
    Dims& same = copy;
    copy = same;
    EXPECT_EQ(copy, original);
  }
}

TEST(Dims, are_moved_and_leave_nothing_behind) {
  for (const std::size_t count : kCounts) {
    Dims source = counted(count);
    Dims moved = std::move(source);
    EXPECT_EQ(moved, counted(count));
    EXPECT_TRUE(source.empty());  // NOLINT(bugprone-use-after-move): that is the question
    source = std::move(moved);
    EXPECT_EQ(source, counted(count));
    EXPECT_TRUE(moved.empty());  // NOLINT(bugprone-use-after-move)
  }
}

TEST(Dims, differ_when_one_value_or_the_count_differs) {
  for (const std::size_t count : kCounts) {
    EXPECT_NE(counted(count), counted(count + 1));
    for (std::size_t i = 0; i < count; ++i) {
      Dims other = counted(count);
      other[i] = 0;
      EXPECT_NE(other, counted(count));
    }
  }
}

}  // namespace
}  // namespace tensorbus
