#include "tensorbus/link/lease/byte_counter.hpp"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

namespace tensorbus::link {
namespace {

TEST(ByteCounter, adds_up_what_is_alive) {
  ByteCounter counter;
  EXPECT_EQ(counter.bytes(), 0U);
  std::optional<CountedBytes> image(std::in_place, counter, 100);
  const CountedBytes mask(counter, 20);
  EXPECT_EQ(counter.bytes(), 120U);
  image.reset();
  EXPECT_EQ(counter.bytes(), 20U);
}

TEST(ByteCounter, bytes_that_move_are_counted_once) {
  ByteCounter counter;
  CountedBytes first(counter, 100);
  CountedBytes second = std::move(first);
  EXPECT_EQ(counter.bytes(), 100U);
  second = CountedBytes(counter, 30);
  EXPECT_EQ(counter.bytes(), 30U);
  second = CountedBytes();
  EXPECT_EQ(counter.bytes(), 0U);
}

TEST(ByteCounter, nothing_is_counted_of_nothing) {
  auto counter = std::make_unique<ByteCounter>();
  const CountedBytes none(*counter, 0);
  EXPECT_EQ(counter->bytes(), 0U);
  counter.reset();
}

// Of what it leaves behind, sanitizers would tell.
TEST(ByteCounter, what_is_counted_outlives_it) {
  auto counter = std::make_unique<ByteCounter>();
  std::vector<CountedBytes> alive;
  for (std::size_t bytes = 1; bytes <= 10; ++bytes) alive.emplace_back(*counter, bytes);
  counter.reset();
  while (!alive.empty()) alive.pop_back();
}

TEST(ByteCounter, threads_count_at_once) {
  constexpr int kTimes = 20'000;
  auto counter = std::make_unique<ByteCounter>();
  std::array<std::vector<CountedBytes>, 2> kept;
  const auto count = [&](std::vector<CountedBytes>& all) {
    for (int i = 0; i < kTimes; ++i) {
      CountedBytes bytes(*counter, 7);
      if (i % 2 == 0) all.push_back(std::move(bytes));
    }
  };
  std::thread other(count, std::ref(kept[1]));
  count(kept[0]);
  other.join();
  EXPECT_EQ(counter->bytes(), 7U * kTimes);
  counter.reset();
  std::thread last([&] { kept[1].clear(); });
  kept[0].clear();
  last.join();
}

}  // namespace
}  // namespace tensorbus::link
