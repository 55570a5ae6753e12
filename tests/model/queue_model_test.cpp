#include "tests/model/queue_model.hpp"

#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

namespace tensorbus::bus::testing {

// NOLINTNEXTLINE(readability-identifier-naming): GoogleTest calls it
void PrintTo(const QueueSizes& sizes, std::ostream* to) {
  *to << sizes.getters << " getters, " << sizes.gets << " gets, maxsize " << sizes.maxsize
      << (sizes.redeliver ? ", redeliver, " : ", ") << sizes.deaths << " deaths"
      << (sizes.shut_down == ShutDown::kNever ? "" : ", shut down")
      << (sizes.ahead == 0 ? "" : ", ahead") << (sizes.polls ? ", polls" : "")
      << (sizes.give_back ? ", give back" : "") << (sizes.holds ? ", hold" : "")
      << (sizes.ender ? ", ender" : "");
}

namespace {

class EveryOrder : public ::testing::TestWithParam<QueueSizes> {};

TEST_P(EveryOrder, of_messages_and_deaths_accounts_for_every_item) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "it has one thread, and takes minutes";
#endif
  QueueModel model(GetParam());
  EXPECT_EQ(model.explore(), "");
  EXPECT_GT(model.ends(), 0U);
  RecordProperty("states", std::to_string(model.states()));
}

const std::vector<std::vector<int>> kTwo{{0}, {1}};
const std::vector<std::vector<int>> kThree{{0, 2}, {1}};

constexpr auto kDrains = [](bool redeliver) {
  return QueueSizes{kTwo, 2, 2, 1, redeliver, 1, false, ShutDown::kDrains};
};
const QueueSizes kHolds{.puts = kTwo, .getters = 2, .gets = 1, .maxsize = 1, .holds = true};
constexpr auto kGivesBack = [](bool redeliver) {
  return QueueSizes{{{0}}, 2, 2, 1, redeliver, 1, false, ShutDown::kNever, true};
};
constexpr auto kLends = [](bool redeliver) {
  return QueueSizes{
      .puts = kTwo, .getters = 2, .gets = 2, .maxsize = 2, .redeliver = redeliver, .ahead = 2};
};
const QueueSizes kLendsInOrder{
    .puts = {{0, 1, 2}}, .getters = 1, .gets = 4, .deaths = 0, .ahead = 2};
const QueueSizes kLendsToPolls{.puts = {{0, 1}},
                               .getters = 2,
                               .gets = 2,
                               .maxsize = 1,
                               .deaths = 0,
                               .ahead = 1,
                               .polls = true};
const QueueSizes kLendsAndDrops{.puts = kTwo, .gets = 1, .shut_down = ShutDown::kDrops, .ahead = 1};
constexpr auto kEnds = [](ShutDown how, bool redeliver, int ahead = 0) {
  return QueueSizes{.puts = {{0, 1}},
                    .getters = 2,
                    .gets = 1,
                    .maxsize = 1,
                    .redeliver = redeliver,
                    .shut_down = how,
                    .give_back = redeliver,
                    .ahead = ahead,
                    .ender = true};
};
const QueueSizes kDrops{{{0, 1}}, 2, 2, 0, true, 1, false, ShutDown::kDrops};

INSTANTIATE_TEST_SUITE_P(
    OfAQueue, EveryOrder,
    ::testing::Values(QueueSizes{kTwo, 2, 2, 1, false, 1}, QueueSizes{kTwo, 2, 2, 1, true, 1},
                      QueueSizes{{{0, 1}}, 2, 2, 0, true, 2, true}, kDrains(false), kDrains(true),
                      kDrops, kGivesBack(false), kGivesBack(true), kHolds, kLends(false),
                      kLends(true), kLendsInOrder, kLendsToPolls, kLendsAndDrops,
                      kEnds(ShutDown::kDrains, false), kEnds(ShutDown::kDrains, true),
                      kEnds(ShutDown::kDrops, true), kEnds(ShutDown::kDrains, false, 1),
                      kEnds(ShutDown::kNever, true)));

// These take minutes: scripts/deep models runs them.
INSTANTIATE_TEST_SUITE_P(DISABLED_OfALargerQueue, EveryOrder,
                         ::testing::Values(QueueSizes{kThree, 2, 2, 2, true, 1},
                                           QueueSizes{kThree, 2, 2, 0, false, 1},
                                           QueueSizes{kThree, 2, 2, 0, true, 1, true},
                                           QueueSizes{kThree, 2, 2, 1, false, 2},
                                           QueueSizes{kThree, 2, 2, 1, true, 2}));

std::string found(QueueMistake mistake, bool redeliver) {
  return QueueModel({kTwo, 2, 2, 1, redeliver, 1}, mistake).explore();
}

TEST(QueueModel, finds_each_of_the_mistakes_that_one_could_make) {
  for (const bool redeliver : {false, true}) {
    EXPECT_EQ(found(QueueMistake::kOfferIsInHand, redeliver), "an item is lost that nobody got");
    EXPECT_EQ(found(QueueMistake::kLateOfferIsTaken, redeliver),
              "an item that a client took is not in its hand");
    EXPECT_EQ(found(QueueMistake::kCancelIsNotSent, redeliver), "an offer that nobody answers");
    EXPECT_EQ(found(QueueMistake::kOfferDiesWithGetter, redeliver),
              "an item is lost that nobody got");
    EXPECT_EQ(found(QueueMistake::kCancelledPutArrives, redeliver),
              "an item is there that was not put");
  }
  for (const bool redeliver : {false, true}) {
    EXPECT_EQ(QueueModel(kDrains(redeliver), QueueMistake::kShutDownDrops).explore(),
              "an item is lost that nobody got");
    EXPECT_EQ(QueueModel(kDrains(redeliver), QueueMistake::kOverTooEarly).explore(),
              "a getter is told that nothing is left, and something is");
    EXPECT_EQ(QueueModel(kEnds(ShutDown::kDrains, redeliver), QueueMistake::kEndTooEarly).explore(),
              "an ender is told that nothing is left, and something is");
  }
  EXPECT_EQ(QueueModel(kLendsToPolls, QueueMistake::kRoomIsNotSeen).explore(),
            "somebody waits for what is there");
  EXPECT_EQ(QueueModel(kLends(false), QueueMistake::kAheadOfAGet).explore(),
            "lost items are counted wrongly");
  EXPECT_EQ(QueueModel(kLends(false), QueueMistake::kTakenByTheDead).explore(),
            "an item came back that had been delivered");
  EXPECT_EQ(QueueModel(kLends(true), QueueMistake::kClaimIsNotSeen).explore(),
            "two clients have the same item");
  EXPECT_EQ(QueueModel(kHolds, QueueMistake::kHoldIsNotHeard).explore(),
            "an item came back that had been delivered");
  EXPECT_EQ(QueueModel(kGivesBack(true), QueueMistake::kGiveBackIsDone).explore(),
            "an item is lost that nobody got");
  EXPECT_EQ(QueueModel(kGivesBack(false), QueueMistake::kGiveBackIsDone).explore(),
            "lost items are counted wrongly");
  EXPECT_EQ(found(QueueMistake::kDoneOfAnyItem, true), "an item did not come back once");
  EXPECT_EQ(found(QueueMistake::kDeathBeforeMessages, true), "an item did not come back once");
  EXPECT_EQ(found(QueueMistake::kDeathBeforeMessages, false),
            "an item came back that had been delivered");
  EXPECT_EQ(found(QueueMistake::kReturnsTwice, true), "an item did not come back once");
  EXPECT_EQ(found(QueueMistake::kReturnsTwice, false), "an item came back that had been delivered");
  EXPECT_EQ(found(QueueMistake::kGetBeforeTake, false),
            "an item came back that had been delivered");
}

}  // namespace
}  // namespace tensorbus::bus::testing
