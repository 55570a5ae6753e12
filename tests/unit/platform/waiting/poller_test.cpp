#include "tensorbus/platform/waiting/poller.hpp"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "tests/unit/platform/test_support.hpp"

namespace tensorbus::platform {
namespace {

using namespace std::chrono_literals;

constexpr auto kPatience = 100'000ms;

std::multiset<std::uint64_t> ready_tags(Poller& poller, std::chrono::milliseconds timeout) {
  const auto tags = poller.wait(timeout);
  return {tags.begin(), tags.end()};
}

TEST(Poller, tells_the_tags_that_are_ready_and_no_others) {
  Poller poller;
  const Fd quiet = make_event();
  const Fd first = make_event();
  const Fd second = make_event();
  poller.add(quiet.get(), 1);
  poller.add(first.get(), ~std::uint64_t{0});
  poller.add(second.get(), std::uint64_t{1} << 40);
  EXPECT_TRUE(poller.wait(0ms).empty());
  signal_event(first.get());
  signal_event(second.get());
  EXPECT_EQ(ready_tags(poller, kPatience),
            (std::multiset<std::uint64_t>{~std::uint64_t{0}, std::uint64_t{1} << 40}));
  clear_event(first.get());
  EXPECT_EQ(ready_tags(poller, kPatience), (std::multiset<std::uint64_t>{std::uint64_t{1} << 40}));
}

TEST(Poller, watches_for_room_to_write_only_while_it_is_asked_to) {
  Poller poller;
  const Fd event = make_event();  // always writable
  poller.add(event.get(), 7);
  EXPECT_TRUE(poller.wait(0ms).empty());
  poller.modify(event.get(), 8, {.writable = true});
  EXPECT_EQ(ready_tags(poller, kPatience), (std::multiset<std::uint64_t>{8}));
  poller.modify(event.get(), 9, {});
  EXPECT_TRUE(poller.wait(0ms).empty());
}

TEST(Poller, forgets_what_is_removed) {
  Poller poller;
  const Fd event = make_event();
  poller.add(event.get(), 1);
  signal_event(event.get());
  poller.remove(event.get());
  EXPECT_TRUE(poller.wait(0ms).empty());
  poller.remove(event.get());  // twice, or never added: nothing happens
}

TEST(Poller, gets_through_more_descriptors_than_it_tells_at_once) {
  Poller poller;
  std::vector<Fd> events;
  for (std::uint64_t i = 0; i < 150; ++i) {
    events.push_back(make_event());
    poller.add(events.back().get(), i);
    signal_event(events.back().get());
  }
  std::set<std::uint64_t> seen;
  while (seen.size() < events.size()) {
    const auto tags = poller.wait(kPatience);
    ASSERT_FALSE(tags.empty());
    for (const std::uint64_t tag : tags) {
      seen.insert(tag);
      clear_event(events[tag].get());
    }
  }
  EXPECT_TRUE(poller.wait(0ms).empty());
}

TEST(Poller, refuses_what_cannot_be_watched) {
  Poller poller;
  const Fd event = make_event();
  EXPECT_EQ(test::error_of([&] { poller.add(-1, 0); }), "System");
  EXPECT_EQ(test::error_of([&] { poller.modify(event.get(), 0, {}); }), "System");
  poller.add(event.get(), 0);
  EXPECT_EQ(test::error_of([&] { poller.add(event.get(), 0); }), "System");
}

}  // namespace
}  // namespace tensorbus::platform
