#include "tensorbus/bus/copy/copy_tuner.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <thread>
#include <vector>

namespace tensorbus::bus {
namespace {

using namespace std::chrono_literals;
using Nanoseconds = std::chrono::nanoseconds;

constexpr std::size_t kFrame = std::size_t{1} << 20;

// Copies of which is known how long they take.
class Tuned : public ::testing::Test {
 protected:
  tensor::Stores copy(std::size_t bytes = kFrame) {
    const CopyTuner::Turn turn = tuner.begin(bytes);
    tuner.end(turn, turn.stores == tensor::Stores::kOrdinary ? ordinary : non_temporal);
    return turn.stores;
  }
  std::vector<tensor::Stores> copies(std::uint32_t count, std::size_t bytes = kFrame) {
    std::vector<tensor::Stores> all;
    for (std::uint32_t i = 0; i < count; ++i) all.push_back(copy(bytes));
    return all;
  }
  static std::vector<tensor::Stores> all(std::uint32_t count, tensor::Stores stores) {
    return std::vector<tensor::Stores>(count, stores);
  }
  void try_both() { (void)copies(2 * CopyTuner::kTrial); }

  CopyTuner tuner;
  Nanoseconds ordinary = 20us;
  Nanoseconds non_temporal = 20us;
};

constexpr auto kTrial = CopyTuner::kTrial;
constexpr auto kFirstPeriod = CopyTuner::kFirstPeriod;

TEST_F(Tuned, ordinary_stores_are_tried_first_and_then_the_others) {
  EXPECT_EQ(copies(kTrial), all(kTrial, tensor::Stores::kOrdinary));
  EXPECT_EQ(copies(kTrial), all(kTrial, tensor::Stores::kNonTemporal));
}

TEST_F(Tuned, those_that_take_less_are_used) {
  non_temporal = 5us;
  try_both();
  EXPECT_EQ(copies(kFirstPeriod), all(kFirstPeriod, tensor::Stores::kNonTemporal));
}

TEST_F(Tuned, ordinary_ones_stay_unless_the_others_take_clearly_less) {
  non_temporal = 19us;
  try_both();
  EXPECT_EQ(copies(kFirstPeriod), all(kFirstPeriod, tensor::Stores::kOrdinary));
}

TEST_F(Tuned, what_became_slower_is_left_after_its_period) {
  try_both();
  (void)copies(2 * kFirstPeriod - 1);
  ordinary = 400us;  // its subscriber begins to read
  (void)copies(1 + kTrial);
  EXPECT_EQ(copy(), tensor::Stores::kOrdinary) << "one slow copy among the last ones is no reason";
  (void)copies(4 * kFirstPeriod - 1 + kTrial);
  EXPECT_EQ(copies(kFirstPeriod), all(kFirstPeriod, tensor::Stores::kNonTemporal));
  ordinary = 5us;
  (void)copies(kTrial);
  EXPECT_EQ(copies(kFirstPeriod), all(kFirstPeriod, tensor::Stores::kOrdinary));
}

TEST_F(Tuned, a_trial_is_judged_by_its_best_copy_but_the_first) {
  (void)copies(kTrial);
  non_temporal = 1us;
  (void)copy();
  non_temporal = 30us;
  (void)copies(kTrial - 1);
  EXPECT_EQ(copy(), tensor::Stores::kOrdinary) << "the first does not count";

  (void)copies(2 * kFirstPeriod - 1);
  (void)copies(kTrial - 1);
  non_temporal = 10us;
  (void)copy();
  EXPECT_EQ(copy(), tensor::Stores::kNonTemporal) << "one that was not interrupted does";
}

TEST_F(Tuned, trials_become_rare) {
  constexpr std::uint32_t kCopies = 100'000;
  std::uint32_t tried = 0;
  for (const tensor::Stores stores : copies(kCopies))
    tried += stores == tensor::Stores::kNonTemporal ? 1 : 0;
  constexpr std::uint32_t kAtLeast = kCopies / (CopyTuner::kLongestPeriod + kTrial) * kTrial;
  EXPECT_GE(tried, kAtLeast);
  EXPECT_LE(tried, kAtLeast + 8 * kTrial);
}

TEST_F(Tuned, copies_of_about_the_same_size_are_compared) {
  non_temporal = 5us;
  for (std::uint32_t i = 0; i < 2 * kTrial; ++i) (void)copy(i % 2 == 0 ? kFrame : kFrame * 3 / 2);
  EXPECT_EQ(copy(kFrame / 2), tensor::Stores::kNonTemporal);
  EXPECT_EQ(copy(kFrame * 2), tensor::Stores::kNonTemporal);
}

TEST_F(Tuned, copies_of_another_size_begin_anew) {
  non_temporal = 5us;
  try_both();
  EXPECT_EQ(copy(), tensor::Stores::kNonTemporal);
  EXPECT_EQ(copies(kTrial, 4 * kFrame), all(kTrial, tensor::Stores::kOrdinary));
}

TEST_F(Tuned, small_copies_take_ordinary_stores_and_count_for_nothing) {
  non_temporal = 5us;
  try_both();
  std::vector<tensor::Stores> small;
  for (int i = 0; i < 10; ++i)
    tuner.run(CopyTuner::kWorthTuning - 1, [&](tensor::Stores stores) { small.push_back(stores); });
  EXPECT_EQ(small, all(10, tensor::Stores::kOrdinary));
  EXPECT_EQ(copy(), tensor::Stores::kNonTemporal);
}

TEST_F(Tuned, run_measures_the_copies_itself) {
  std::vector<tensor::Stores> used;
  const auto take = [&](tensor::Stores stores) {
    used.push_back(stores);
    const auto until =
        std::chrono::steady_clock::now() + (stores == tensor::Stores::kOrdinary ? 2ms : 0ms);
    while (std::chrono::steady_clock::now() < until) continue;
  };
  for (std::uint32_t i = 0; i < 2 * kTrial + 1; ++i) tuner.run(kFrame, take);
  EXPECT_EQ(used.back(), tensor::Stores::kNonTemporal);
}

TEST_F(Tuned, threads_may_copy_at_once) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int copied = 0; copied < 2000; ++copied) (void)copy();
    });
  for (std::thread& thread : threads) thread.join();
  non_temporal = 5us;
  std::uint32_t until_found = 0;
  while (until_found < CopyTuner::kLongestPeriod &&
         copies(kTrial + 1) != all(kTrial + 1, tensor::Stores::kNonTemporal))
    ++until_found;
  EXPECT_LT(until_found, CopyTuner::kLongestPeriod);
}

}  // namespace
}  // namespace tensorbus::bus
