#include "tensorbus/link/wake/wake.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <set>
#include <thread>

#include "tensorbus/platform/error.hpp"
#include "tensorbus/platform/files/memfd.hpp"
#include "tensorbus/platform/waiting/notifier.hpp"

namespace tensorbus::link {
namespace {

using namespace std::chrono_literals;

class Wake : public ::testing::Test {
 protected:
  Waker waker_of(std::uint32_t index) { return {map_peer_wake_page(page->memfd()), index}; }

  std::shared_ptr<WakePage> page = std::make_shared<WakePage>();
};

TEST_F(Wake, slots_are_handed_out_once_and_again_after_they_came_back) {
  std::set<std::uint32_t> slots;
  for (std::uint32_t i = 0; i < kWakeSlots; ++i) slots.insert(page->take_slot());
  EXPECT_EQ(slots.size(), kWakeSlots);
  EXPECT_EQ(*slots.rbegin(), kWakeSlots - 1);
  try {
    page->take_slot();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kOutOfMemory);
  }
  page->give_back_slot(17);
  EXPECT_EQ(page->take_slot(), 17U);
}

TEST_F(Wake, an_index_beyond_the_page_is_refused) {
  EXPECT_NO_THROW(waker_of(kWakeSlots - 1));
  EXPECT_THROW(waker_of(kWakeSlots), Error);
  EXPECT_THROW(waker_of(0xffffffff), Error);
}

TEST_F(Wake, a_page_of_another_size_is_refused) {
  EXPECT_THROW(map_peer_wake_page(platform::create_sealed_memfd("small", 4096)), Error);
}

TEST_F(Wake, nobody_is_woken_who_does_not_sleep) {
  Sleeper sleeper(page);
  Waker waker = waker_of(sleeper.index());
  waker.wake_if_sleeping();
  EXPECT_EQ(page->slot(sleeper.index()).wake.load(), 0U);
}

TEST_F(Wake, a_sleeper_that_finds_something_at_the_last_moment_does_not_park) {
  Sleeper sleeper(page);
  EXPECT_EQ(sleeper.park(1h, [] { return true; }), platform::FutexWait::kWoken);
  EXPECT_EQ(page->slot(sleeper.index()).sleeping.load(), 0U);
}

TEST_F(Wake, a_park_ends_by_itself_after_a_slice) {
  Sleeper sleeper(page);
  EXPECT_EQ(sleeper.park(1h, [] { return false; }), platform::FutexWait::kTimedOut);
}

TEST_F(Wake, a_wake_between_the_look_and_the_park_is_not_lost) {
  Sleeper sleeper(page);
  Waker waker = waker_of(sleeper.index());
  const auto outcome = sleeper.park(1h, [&] {
    waker.wake_if_sleeping();  // it does sleep, as far as others can see
    return false;
  });
  EXPECT_EQ(outcome, platform::FutexWait::kWoken);
}

TEST_F(Wake, an_armed_event_is_rung) {
  Sleeper sleeper(page);
  Waker waker = waker_of(sleeper.index());
  platform::Notifier notifier = platform::make_notifier();
  waker.set_notifier(std::move(notifier.sender));
  pollfd ready{notifier.listener.get(), POLLIN, 0};
  waker.wake_if_sleeping();
  EXPECT_EQ(::poll(&ready, 1, 0), 0) << "it was not armed";
  sleeper.arm_event();
  waker.wake_if_sleeping();
  EXPECT_EQ(::poll(&ready, 1, 0), 1);
  EXPECT_TRUE(platform::drain(notifier.listener.get()));
  sleeper.disarm_event();
  waker.wake_if_sleeping();
  EXPECT_EQ(::poll(&ready, 1, 0), 0);
}

TEST_F(Wake, one_that_sleeps_until_half_full_is_notified_then_and_only_by_who_knows) {
  Sleeper sleeper(page);
  Waker waker = waker_of(sleeper.index());
  platform::Notifier notifier = platform::make_notifier();
  waker.set_notifier(std::move(notifier.sender));
  pollfd ready{notifier.listener.get(), POLLIN, 0};
  int asked = 0;
  waker.wake_if_sleeping([&] { return ++asked > 0; });
  EXPECT_EQ(asked, 0) << "nobody sleeps: nothing is looked at";
  sleeper.arm_event(kSleepsUntilHalfFull);
  waker.wake_if_sleeping();
  waker.wake_if_sleeping([] { return false; });
  EXPECT_EQ(::poll(&ready, 1, 0), 0);
  waker.wake_if_sleeping([] { return true; });
  EXPECT_EQ(::poll(&ready, 1, 0), 1);
  EXPECT_TRUE(platform::drain(notifier.listener.get()));
  sleeper.disarm_event();
  waker.wake_if_sleeping([] { return true; });
  EXPECT_EQ(::poll(&ready, 1, 0), 0);
}

TEST_F(Wake, a_thread_that_parks_is_woken_whatever_the_event_waits_for) {
  Sleeper sleeper(page);
  Waker waker = waker_of(sleeper.index());
  sleeper.arm_event(kSleepsUntilHalfFull);
  const auto outcome = sleeper.park(1h, [&] {
    waker.wake_if_sleeping([] { return false; });
    return false;
  });
  EXPECT_EQ(outcome, platform::FutexWait::kWoken);
  EXPECT_EQ(page->slot(sleeper.index()).sleeping.load(), kSleepsUntilHalfFull);
}

// By a store and a fence, as entries and returns are.
void store_and_fence(std::atomic<int>& turn, int value) {
  turn.store(value, std::memory_order_relaxed);
  full_fence();
}

// By a swap alone, as a slot is taken.
void swap(std::atomic<int>& turn, int value) {
  int expected = value - 1;
  turn.compare_exchange_strong(expected, value, std::memory_order_seq_cst);
}

class WakeAfter : public Wake,
                  public ::testing::WithParamInterface<void (*)(std::atomic<int>&, int)> {};

// Two threads hand a number to and fro; whoever waits, parks at once. Were a wake-up lost, the park
// would last its whole slice.
TEST_P(WakeAfter, no_wake_up_is_lost_in_thousands_of_handoffs) {
  constexpr int kHandoffs = 10'000;
  Sleeper ping(page);
  Sleeper pong(page);
  std::atomic<int> turn{0};
  std::atomic<int> slept_through{0};
  const auto play = [&](Sleeper& own, Sleeper& other, int parity) {
    Waker waker = waker_of(other.index());
    for (int i = parity; i < kHandoffs; i += 2) {
      while (turn.load(std::memory_order_relaxed) != i) {
        const auto outcome =
            own.park(1h, [&] { return turn.load(std::memory_order_relaxed) == i; });
        if (outcome == platform::FutexWait::kTimedOut && turn.load(std::memory_order_relaxed) == i)
          ++slept_through;
      }
      GetParam()(turn, i + 1);
      waker.wake_if_sleeping();
    }
  };
  std::thread other([&] { play(pong, ping, 1); });
  play(ping, pong, 0);
  other.join();
  EXPECT_EQ(turn.load(), kHandoffs);
  // One may be on a machine so busy that the other slept its slice out before it was its turn.
  EXPECT_LT(slept_through.load(), 20);
}

INSTANTIATE_TEST_SUITE_P(Wake, WakeAfter, ::testing::Values(&store_and_fence, &swap));

TEST_F(Wake, all_threads_that_park_at_one_sleeper_are_woken) {
  Sleeper sleeper(page);
  Waker waker = waker_of(sleeper.index());
  std::atomic<bool> go{false};
  std::atomic<int> parked{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      ++parked;
      while (!go) (void)sleeper.park(1h, [&] { return go.load(); });
    });
  while (parked < 4) std::this_thread::yield();
  go = true;
  full_fence();
  waker.wake_if_sleeping();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(page->slot(sleeper.index()).sleeping.load(), 0U);
}

TEST_F(Wake, whatever_a_peer_writes_into_the_page_costs_a_sleeper_its_sleep_at_most) {
  Sleeper sleeper(page);
  std::atomic<bool> done{false};
  std::thread hostile([&] {
    for (std::uint32_t i = 0; !done; ++i) {
      page->slot(sleeper.index()).wake = i * 2654435761U;
      page->slot(sleeper.index()).sleeping = i;
    }
  });
  for (int i = 0; i < 100; ++i) (void)sleeper.park(1ms, [] { return false; });
  done = true;
  hostile.join();
}

}  // namespace
}  // namespace tensorbus::link
