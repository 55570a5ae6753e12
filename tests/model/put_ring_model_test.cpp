#include "tests/model/put_ring_model.hpp"

#include <gtest/gtest.h>

#include <string>

namespace tensorbus::link::testing {
namespace {

class EveryStep : public ::testing::TestWithParam<PutRingSizes> {};

TEST_P(EveryStep, of_producers_and_host_keeps_what_was_put_in_order) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "it has one thread, and takes minutes";
#endif
  PutRingModel model(GetParam());
  EXPECT_EQ(model.explore(), "");
  EXPECT_GT(model.ends(), 0U);
  RecordProperty("states", std::to_string(model.states()));
}

constexpr PutRingSizes kOne{
    .producers = 1, .puts = 3, .maxsize = 2, .asks = true, .shuts_down = true};
constexpr PutRingSizes kAlone{.producers = 1, .puts = 3, .maxsize = 2};
constexpr PutRingSizes kTwo{.puts = 1, .maxsize = 2, .asks = true};
constexpr PutRingSizes kTwoEnd{.puts = 1, .maxsize = 0, .shuts_down = true};

INSTANTIATE_TEST_SUITE_P(OfPutRings, EveryStep, ::testing::Values(kOne, kAlone, kTwo, kTwoEnd));

std::string found(PutRingMistake mistake, const PutRingSizes& sizes = kOne) {
  return PutRingModel(sizes, mistake).explore();
}

TEST(PutRingModel, finds_each_of_the_mistakes_that_one_could_make) {
  EXPECT_EQ(found(PutRingMistake::kStoreOfTheTail), "an item is put after the end");
  EXPECT_EQ(found(PutRingMistake::kSleepsWithoutLook, kAlone), "a getter waits for what is there");
  EXPECT_EQ(found(PutRingMistake::kNoLeftover, kTwoEnd), "an item passes one that was put before");
  EXPECT_EQ(found(PutRingMistake::kPromisesTwice, kTwo), "more items than maxsize");
  EXPECT_EQ(found(PutRingMistake::kAsksWithoutTaking, kTwo), "a put waits for room that is there");
  EXPECT_EQ(found(PutRingMistake::kDeathBeforeEntries), "an item is lost that was put");
}

}  // namespace
}  // namespace tensorbus::link::testing
