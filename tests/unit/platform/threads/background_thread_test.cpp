#include "tensorbus/platform/threads/background_thread.hpp"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <deque>
#include <future>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "tests/unit/platform/test_support.hpp"

namespace tensorbus::platform {
namespace {

bool is_blocked(int signal) {
  sigset_t mask;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  return ::sigismember(&mask, signal) == 1;
}

TEST(BackgroundThread, has_signals_blocked_but_for_its_own_faults_and_whoever_starts_it_has_not) {
  auto in_thread = std::make_shared<std::promise<std::pair<bool, bool>>>();
  start_background_thread(
      "a thread", [in_thread] { in_thread->set_value({is_blocked(SIGUSR1), is_blocked(SIGBUS)}); });
  EXPECT_FALSE(is_blocked(SIGUSR1));
  EXPECT_EQ(in_thread->get_future().get(), std::make_pair(true, false));
}

struct Nothing {};
void end_at_once(Nothing&) {}

// As those of the library, which no thread outlives.
BackgroundThread<Nothing>& one_for_ever() {
  static auto* const all = new std::deque<BackgroundThread<Nothing>>;
  return all->emplace_back("a thread", end_at_once);
}

TEST(BackgroundThread, is_started_by_a_child_that_was_forked_while_it_was_started) {
  if (TENSORBUS_SANITIZED) GTEST_SKIP() << "the child would wait for a lock of the sanitizer's";
  for (int round = 0; round < 100; ++round) {
    BackgroundThread<Nothing>& background = one_for_ever();
    std::thread starting([&] { background.start(); });
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(30);
      background.start();
      std::_Exit(0);
    }
    starting.join();
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_EQ(status, 0);
  }
}

TEST(BackgroundThread, is_started_once) {
  BackgroundThread<Nothing>& background = one_for_ever();
  std::vector<std::thread> starting;
  std::array<Nothing*, 8> states{};
  for (Nothing*& state : states) starting.emplace_back([&] { state = &background.start(); });
  for (std::thread& thread : starting) thread.join();
  EXPECT_TRUE(std::ranges::all_of(states, [&](Nothing* state) { return state == states[0]; }));
}

}  // namespace
}  // namespace tensorbus::platform
