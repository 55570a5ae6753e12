#include "tensorbus/memory/open_once.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <stdexcept>
#include <thread>

namespace tensorbus::memory {
namespace {

// Counts how often it is open, and takes as long to close as the test says.
struct Door {
  struct State {
    std::atomic<int> open{0};
    std::promise<void> closing;
    std::shared_future<void> may_close;
  };
  explicit Door(State& of) : state(of) { EXPECT_EQ(++state.open, 1) << "twice at a time"; }
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;
  ~Door() {
    if (const std::shared_future<void> may = state.may_close; may.valid()) {
      state.closing.set_value();
      may.wait();
    }
    --state.open;
  }
  State& state;
};
using Doors = OpenOnce<int, Door>;

TEST(OpenOnce, shares_what_is_open_and_opens_again_what_was_closed) {
  Doors doors;
  Door::State state;
  int opened = 0;
  const auto find = [&] { return doors.find_or_open(1, [&] { return ++opened, Door(state); }); };
  {
    const auto one = find();
    EXPECT_EQ(find(), one);
    EXPECT_EQ(opened, 1);
  }
  EXPECT_EQ(state.open, 0);
  (void)find();
  EXPECT_EQ(opened, 2);
}

TEST(OpenOnce, waits_for_what_is_being_closed_and_for_nothing_else) {
  Doors doors;
  Door::State slow;
  Door::State other;
  std::promise<void> close;
  slow.may_close = close.get_future().share();
  std::thread closes(
      [door = doors.find_or_open(1, [&] { return Door(slow); })]() mutable { door.reset(); });
  slow.closing.get_future().wait();
  slow.may_close = {};  // for the next one; the door that closes has taken its own
  (void)doors.find_or_open(2, [&] { return Door(other); });
  auto again = std::async(std::launch::async,
                          [&] { return doors.find_or_open(1, [&] { return Door(slow); }); });
  EXPECT_EQ(again.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
  close.set_value();
  EXPECT_TRUE(again.get());
  closes.join();
}

TEST(OpenOnce, can_be_asked_again_for_what_could_not_be_opened) {
  Doors doors;
  Door::State state;
  EXPECT_THROW(doors.find_or_open(1, []() -> Door { throw std::runtime_error("no"); }),
               std::runtime_error);
  EXPECT_TRUE(doors.find_or_open(1, [&] { return Door(state); }));
}

}  // namespace
}  // namespace tensorbus::memory
