#include "histogram.hpp"

#include <gtest/gtest.h>

namespace {

using bench::Histogram;

TEST(Histogram, small_values_are_kept_exactly) {
  Histogram histogram;
  for (std::uint64_t value = 1; value <= 100; ++value) histogram.add(value);
  EXPECT_EQ(histogram.count(), 100U);
  EXPECT_EQ(histogram.percentile(0), 1);
  EXPECT_EQ(histogram.percentile(0.5), 51);
  EXPECT_EQ(histogram.percentile(0.99), 100);
  EXPECT_EQ(histogram.percentile(1), 100);
}

TEST(Histogram, large_values_are_within_one_per_cent) {
  for (const std::uint64_t value : {1'000U, 123'456U, 100'000'000U, 4'000'000'000U}) {
    Histogram histogram;
    histogram.add(value);
    EXPECT_NEAR(histogram.percentile(0.5), static_cast<double>(value),
                static_cast<double>(value) / 100);
  }
}

TEST(Histogram, the_last_thousandth_is_found) {
  Histogram histogram;
  for (int i = 0; i < 9'990; ++i) histogram.add(100);
  for (int i = 0; i < 10; ++i) histogram.add(1'000'000);
  EXPECT_EQ(histogram.percentile(0.99), 100);
  EXPECT_NEAR(histogram.percentile(0.999), 1'000'000, 10'000);
}

TEST(Histogram, takes_in_what_another_one_has) {
  Histogram whole;
  whole.add(10);
  Histogram part;
  for (int i = 0; i < 3; ++i) part.add(1'000);
  whole.add(part);
  EXPECT_EQ(whole.count(), 4U);
  EXPECT_EQ(whole.percentile(0), 10);
  EXPECT_NEAR(whole.percentile(0.5), 1'000, 10);
  whole.add(Histogram());
  EXPECT_EQ(whole.count(), 4U);
}

TEST(Histogram, what_is_too_large_is_in_the_last_bucket_and_an_empty_one_is_zero) {
  Histogram histogram;
  EXPECT_EQ(histogram.percentile(0.5), 0);
  histogram.add(~std::uint64_t{0});
  EXPECT_GT(histogram.percentile(0.5), 5e11);
  histogram.clear();
  EXPECT_EQ(histogram.count(), 0U);
}

}  // namespace
