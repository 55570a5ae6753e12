#include "tests/model/mirror_model.hpp"

#include <gtest/gtest.h>

#include <ostream>
#include <string>

namespace tensorbus::bus::testing {

// NOLINTNEXTLINE(readability-identifier-naming): GoogleTest calls it
void PrintTo(const MirrorSizes& sizes, std::ostream* to) {
  *to << sizes.requests << " requests, " << sizes.items << " items"
      << (sizes.redeliver ? ", redeliver" : "") << (sizes.ends ? ", ends" : "")
      << (sizes.puts ? ", puts" : "");
}

namespace {

class EveryOrderOfAMirror : public ::testing::TestWithParam<MirrorSizes> {};

TEST_P(EveryOrderOfAMirror, answers_each_request_once_and_accounts_for_every_item) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "it has one thread, and takes minutes";
#endif
  MirrorModel model(GetParam());
  EXPECT_EQ(model.explore(), "");
  EXPECT_GT(model.rests(), 0U);
  RecordProperty("states", std::to_string(model.states()));
}

constexpr auto kSmall = [](bool redeliver, bool ends) {
  return MirrorSizes{.requests = 1, .items = 1, .redeliver = redeliver, .ends = ends};
};

constexpr auto kGetsOnly = [](int requests, int items, bool redeliver) {
  return MirrorSizes{requests, items, redeliver, 1, true, false};
};

INSTANTIATE_TEST_SUITE_P(OfAMirror, EveryOrderOfAMirror,
                         ::testing::Values(kSmall(false, false), kSmall(true, false),
                                           kSmall(false, true), kSmall(true, true),
                                           kGetsOnly(1, 2, false), kGetsOnly(1, 2, true)));

// These take minutes: scripts/deep models runs them.
INSTANTIATE_TEST_SUITE_P(DISABLED_OfALargerMirror, EveryOrderOfAMirror,
                         ::testing::Values(kGetsOnly(2, 1, false), kGetsOnly(2, 1, true),
                                           MirrorSizes{2, 1, true, 1, true, true},
                                           kGetsOnly(2, 2, true)));

std::string found(MirrorMistake mistake, bool redeliver, bool ends = false) {
  return MirrorModel({.requests = 1, .items = 1, .redeliver = redeliver, .ends = ends}, mistake)
      .explore();
}

TEST(MirrorModel, finds_each_of_the_mistakes_that_one_could_make) {
  EXPECT_EQ(found(MirrorMistake::kDeathIsNotTold, true), "an item is lost that nobody got");
  EXPECT_EQ(found(MirrorMistake::kDeathIsNotTold, false), "the home counts wrongly");
  EXPECT_EQ(found(MirrorMistake::kCancelIsAnAnswer, false), "a put is answered twice");
  EXPECT_EQ(found(MirrorMistake::kSurplusStays, true), "an item waits where nobody waits for it");
  EXPECT_EQ(found(MirrorMistake::kOverAlways, true, true),
            "a getter is told that nothing is left, and something is");
  EXPECT_EQ(found(MirrorMistake::kPollIsNotAsked, false), "somebody waits in vain");
  EXPECT_EQ(found(MirrorMistake::kWithdrawsWhatIsHeld, false), "an item is lost that nobody got");
  EXPECT_EQ(found(MirrorMistake::kDemandAddsUp, false), "the home knows another demand");
}

}  // namespace
}  // namespace tensorbus::bus::testing
