#include "tensorbus/platform/background_thread.hpp"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <future>
#include <memory>
#include <utility>

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

}  // namespace
}  // namespace tensorbus::platform
