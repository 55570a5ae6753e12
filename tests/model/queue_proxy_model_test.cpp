#include "tests/model/queue_proxy_model.hpp"

#include <gtest/gtest.h>

#include <ostream>
#include <string>

namespace tensorbus::bus::testing {

// NOLINTNEXTLINE(readability-identifier-naming): GoogleTest calls it
void PrintTo(const ProxySizes& sizes, std::ostream* to) {
  *to << sizes.items << " items, " << sizes.gets << " gets, " << sizes.deaths << " deaths"
      << (sizes.redeliver ? ", redeliver" : "") << (sizes.cut ? ", cut" : "")
      << (sizes.bridge_dies ? ", bridge dies" : "") << (sizes.shuts_down ? ", shuts down" : "");
}

namespace {

class EveryOrderOfProxies : public ::testing::TestWithParam<ProxySizes> {};

TEST_P(EveryOrderOfProxies, accounts_for_every_item) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "it has one thread, and takes minutes";
#endif
  QueueProxyModel model(GetParam());
  EXPECT_EQ(model.explore(), "");
  EXPECT_GT(model.rests(), 0U);
  RecordProperty("states", std::to_string(model.states()));
}

constexpr auto kOneItem = [](bool redeliver) {
  return ProxySizes{.items = 1, .gets = 1, .redeliver = redeliver, .shuts_down = true};
};
constexpr auto kTwoItems = [](bool redeliver) { return ProxySizes{.redeliver = redeliver}; };

constexpr auto kTwoGets = [](bool redeliver) {
  return ProxySizes{.gets = 2, .redeliver = redeliver, .shuts_down = true};
};

INSTANTIATE_TEST_SUITE_P(OfAQueue, EveryOrderOfProxies,
                         ::testing::Values(kOneItem(false), kOneItem(true), kTwoItems(false),
                                           kTwoItems(true)));

// These take a minute: scripts/deep models runs them.
INSTANTIATE_TEST_SUITE_P(DISABLED_OfALargerQueue, EveryOrderOfProxies,
                         ::testing::Values(kTwoGets(false), kTwoGets(true)));

std::string found(ProxyMistake mistake, bool redeliver) {
  return QueueProxyModel(kTwoItems(redeliver), mistake).explore();
}

TEST(QueueProxyModel, finds_each_of_the_mistakes_that_one_could_make) {
  EXPECT_EQ(found(ProxyMistake::kSentGoesBack, false), "an item is delivered twice");
  EXPECT_EQ(found(ProxyMistake::kUnsentIsLost, false), "an item is lost that nobody got");
  EXPECT_EQ(found(ProxyMistake::kDeathIsNotTold, true), "an item is lost that nobody got");
  EXPECT_EQ(found(ProxyMistake::kDeathIsNotTold, false), "an item is lost that nobody got");
  EXPECT_EQ(found(ProxyMistake::kDeathBeforeMessages, false), "lost items are counted wrongly");
  EXPECT_EQ(found(ProxyMistake::kDeadLosesOffers, false), "an item is lost that nobody got");
  EXPECT_EQ(found(ProxyMistake::kLateOfferIsTaken, true),
            "an item that a client took is not in its hand");
  EXPECT_EQ(found(ProxyMistake::kHoldIsNotHeard, false), "an item is delivered twice");
  EXPECT_EQ(found(ProxyMistake::kEndFinishesItems, true), "an item did not come back");
}

}  // namespace
}  // namespace tensorbus::bus::testing
