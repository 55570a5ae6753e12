#include "tests/model/sample_ring_model.hpp"

#include <gtest/gtest.h>

#include <string>

namespace tensorbus::link::testing {
namespace {

class EveryInterleaving : public ::testing::TestWithParam<Sizes> {};

TEST_P(EveryInterleaving, and_every_death_at_every_step_keeps_the_invariants) {
  SampleRingModel model(GetParam());
  EXPECT_EQ(model.explore(), "");
  EXPECT_GT(model.ends(), 0U);
  RecordProperty("states", std::to_string(model.states()));
}

INSTANTIATE_TEST_SUITE_P(OfARing, EveryInterleaving,
                         ::testing::Values(Sizes{1, 1, 1, 9}, Sizes{2, 1, 1, 9}, Sizes{2, 2, 1, 8},
                                           Sizes{2, 2, 2, 6}, Sizes{4, 3, 1, 10}, Sizes{4, 4, 2, 6},
                                           Sizes{2, 2, 1, 7, 2}, Sizes{4, 3, 1, 7, 3}));

std::string found(Mistake mistake, Sizes sizes = {2, 2, 1, 5}) {
  return SampleRingModel(sizes, mistake).explore();
}

TEST(SampleRingModel, finds_each_of_the_mistakes_that_one_could_make) {
  EXPECT_EQ(found(Mistake::kNone), "");
  EXPECT_EQ(found(Mistake::kStateBeforeWords), "a torn entry is accepted");
  EXPECT_EQ(found(Mistake::kTakeWithoutSwap), "a position has two winners");
  EXPECT_EQ(found(Mistake::kOverwriteUntaken), "an honest borrower holds more than it may");
  EXPECT_EQ(found(Mistake::kTailBeforeToken), "memory in use is not leased");
  EXPECT_EQ(found(Mistake::kReturnRingTooSmall, {1, 1, 3, 6}), "memory in use is not leased");
  EXPECT_EQ(found(Mistake::kHeldIsNotBounded), "more held than allowed");
  EXPECT_EQ(found(Mistake::kBatchBeyondRoom, {2, 2, 1, 5, 3}),
            "an honest borrower holds more than it may");
  EXPECT_EQ(found(Mistake::kJumpTooFar), "the borrower passes what nobody dropped");
}

}  // namespace
}  // namespace tensorbus::link::testing
