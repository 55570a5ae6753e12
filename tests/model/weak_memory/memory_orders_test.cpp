#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <memory>
#include <set>
#include <string>

#include "tests/model/weak_memory/get_ring_scenario.hpp"
#include "tests/model/weak_memory/link_scenario.hpp"
#include "tests/model/weak_memory/put_scenario.hpp"
#include "tests/model/weak_memory/small_scenarios.hpp"

namespace tensorbus::model {
namespace {

struct Named {
  const char* name;
  std::unique_ptr<Scenario> (*make)();
};

template <typename T, auto... kArguments>
std::unique_ptr<Scenario> make() {
  return std::make_unique<T>(kArguments...);
}

using Options = LinkScenario::Options;

constexpr Options kSleepingSubscriber{
    .slots = 1, .depth = 1, .max_held = 1, .publishes = 1, .subscriber_sleeps = true};
constexpr Options kSleepingPublisher{.slots = 1,
                                     .depth = 1,
                                     .max_held = 2,
                                     .publishes = 2,
                                     .receives = 1,
                                     .subscriber_sleeps = true,
                                     .publisher_sleeps = true,
                                     .keeps = true};
constexpr Options kOneSlot{.slots = 1, .depth = 1, .max_held = 1, .publishes = 2, .receives = 2};
constexpr Options kTwoSlots{.slots = 2, .depth = 2, .max_held = 1, .publishes = 3, .receives = 2};
constexpr Options kBothSleep{.slots = 1,
                             .depth = 1,
                             .max_held = 1,
                             .publishes = 2,
                             .receives = 2,
                             .subscriber_sleeps = true,
                             .publisher_sleeps = true};

// Smaller scenarios come first: an order that they need is not weakened again in the later ones.
const std::array kScenarios = {
    Named{"lock", make<LockScenario>},
    Named{"mark", make<MarkScenario>},
    Named{"given_up", make<GivenUpScenario>},
    Named{"woken_by_its_own_process", make<WakeOwnScenario>},
    Named{"sleeping_subscriber", make<LinkScenario, kSleepingSubscriber>},
    Named{"sleeping_publisher", make<LinkScenario, kSleepingPublisher>},
    Named{"put_and_take_back", make<PutScenario, PutScenario::Server::kTakesBack, 3U>},
    Named{"put_for_a_sleeping_server", make<PutScenario, PutScenario::Server::kSleeps, 2U>},
    Named{"put_for_a_sleeping_thread", make<PutScenario, PutScenario::Server::kHasThread, 2U>},
    Named{"lent_for_a_sleeping_server",
          make<GetRingScenario, GetRingScenario::Server::kSleeps, 1U>},
    Named{"lent_again", make<GetRingScenario, GetRingScenario::Server::kLendsAgain, 1U>},
    Named{"lent_and_taken_back", make<GetRingScenario, GetRingScenario::Server::kTakesBack, 1U>},
    Named{"lent_to_two", make<GetRingScenario, GetRingScenario::Server::kTakesBack, 2U>},
    Named{"one_slot", make<LinkScenario, kOneSlot>},
    Named{"two_slots", make<LinkScenario, kTwoSlots>},
};
const Named kLargest{"both_sleep", make<LinkScenario, kBothSleep>};

struct Explored {
  Explorer::Values written;
  std::set<Site> sites;
  std::string wrong;
  std::size_t states = 0;
};

// Explores first without late loads, to find the values that late loads may return.
Explored explore(Scenario& scenario) {
  Explorer in_time(scenario);
  std::string wrong = in_time.explore();
  if (!wrong.empty()) return {{}, {}, wrong, in_time.states()};
  Explorer late(scenario, in_time.written());
  wrong = late.explore();
  return {in_time.written(), late.sites(), wrong, late.states()};
}

class EveryReadThatItsOrderAllows : public ::testing::TestWithParam<Named> {};

TEST_P(EveryReadThatItsOrderAllows, keeps_the_promises) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "it has one thread, and changes stacks by hand";
#endif
  const auto scenario = GetParam().make();
  const Explored explored = explore(*scenario);
  EXPECT_EQ(explored.wrong, "");
  RecordProperty("states", std::to_string(explored.states));
}

std::string name_of(const ::testing::TestParamInfo<Named>& of) { return of.param.name; }

INSTANTIATE_TEST_SUITE_P(OfTheCode, EveryReadThatItsOrderAllows, ::testing::ValuesIn(kScenarios),
                         name_of);

// It takes a minute: scripts/deep models runs it.
INSTANTIATE_TEST_SUITE_P(DISABLED_OfTheCode, EveryReadThatItsOrderAllows,
                         ::testing::Values(kLargest), name_of);

// A weaker order in any place breaks a promise. So all orders are needed, and the model detects
// each of these mistakes.
TEST(MemoryOrders, each_is_needed) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "it has one thread, and changes stacks by hand";
#endif
  std::set<std::string> unneeded;
  std::set<std::string> needed;
  for (const Named& named : kScenarios) {
    const auto scenario = named.make();
    const Explored explored = explore(*scenario);
    for (const Site& site : explored.sites) {
      if (site.file.ends_with("_scenario.hpp")) continue;  // stands for a socket
      for (const Weaker& weaker : weaker(site)) {
        if (needed.contains(weaker.text())) continue;
        Explorer explorer(*scenario, explored.written, weaker);
        if (explorer.explore().empty())
          unneeded.insert(weaker.text());
        else
          needed.insert(weaker.text());
      }
    }
  }
  for (const std::string& text : unneeded)
    EXPECT_TRUE(needed.contains(text)) << "nothing breaks with " << text;
  EXPECT_GE(needed.size(), 15U);
}

}  // namespace
}  // namespace tensorbus::model
