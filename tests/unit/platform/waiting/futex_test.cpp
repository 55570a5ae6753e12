#include "tensorbus/platform/waiting/futex.hpp"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/syscall.h>

#include <array>
#include <csignal>
#include <memory>
#include <thread>
#include <vector>

#include "tensorbus/platform/files/mapping.hpp"
#include "tensorbus/platform/files/memfd.hpp"
#include "tests/unit/platform/test_support.hpp"

namespace tensorbus::platform {
namespace {

using namespace std::chrono_literals;
using Word = std::atomic<std::uint32_t>;

constexpr auto kLong = 100s;  // never reached: a test that waits so long is killed by CTest

pid_t thread_id() { return static_cast<pid_t>(::syscall(SYS_gettid)); }

// A page of words that children share.
struct SharedWords {
  Fd fd = create_sealed_memfd("test", page_bytes());
  Mapping mapping{fd.get(), page_bytes(), Mapping::Access::kReadWrite};
  Word& operator[](std::size_t i) const { return reinterpret_cast<Word*>(mapping.data())[i]; }
};

TEST(Futex, does_not_park_when_the_word_has_changed) {
  Word word{1};
  EXPECT_EQ(futex_wait(word, 0, kLong), FutexWait::kWoken);
}

class SeveralWords : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!can_wait_for_any()) GTEST_SKIP() << "this kernel is older than Linux 5.16";
  }

  FutexWait wait(std::chrono::nanoseconds timeout) {
    return futex_wait_any(std::array{FutexWord{&first, 0}, FutexWord{&second, 0}}, timeout);
  }
  Word first{0};
  Word second{0};
};

TEST_F(SeveralWords, does_not_park_when_one_has_changed) {
  second = 1;
  EXPECT_EQ(wait(kLong), FutexWait::kWoken);
}

TEST_F(SeveralWords, gives_up_when_the_time_is_over) {
  EXPECT_EQ(wait(1ms), FutexWait::kTimedOut);
  EXPECT_EQ(wait(0ms), FutexWait::kTimedOut);
}

TEST_F(SeveralWords, is_woken_by_either) {
  for (Word* const word : {&first, &second}) {
    first = second = 0;
    std::thread waker([&] {
      word->store(1);
      futex_wake_all(*word);
    });
    while (*word == 0) EXPECT_EQ(wait(kLong), FutexWait::kWoken);
    waker.join();
  }
}

TEST(Futex, gives_up_when_the_time_is_over) {
  Word word{0};
  EXPECT_EQ(futex_wait(word, 0, 1ms), FutexWait::kTimedOut);
  EXPECT_EQ(futex_wait(word, 0, 0ms), FutexWait::kTimedOut);
  EXPECT_EQ(futex_wait(word, 0, -1ms), FutexWait::kTimedOut);
}

TEST(Futex, wakes_a_process_that_is_parked_on_shared_memory) {
  const SharedWords words;
  test::Child child([&] {
    words[1].store(1);
    // The word keeps its value, so only a wake ends this.
    return futex_wait(words[0], 0, kLong) == FutexWait::kWoken;
  });
  while (words[1].load() == 0) ::sched_yield();
  ASSERT_TRUE(test::wait_until_asleep(child.pid(), child.pid()));
  futex_wake_all(words[0]);
  EXPECT_EQ(child.wait(), "exit 0");
}

TEST(Futex, wakes_everybody) {
  const SharedWords words;
  std::vector<std::unique_ptr<test::Child>> children;
  for (int i = 0; i < 3; ++i)
    children.push_back(std::make_unique<test::Child>([&] {
      words[1].fetch_add(1);
      return futex_wait(words[0], 0, kLong) == FutexWait::kWoken;
    }));
  while (words[1].load() != 3) ::sched_yield();
  for (const auto& child : children)
    ASSERT_TRUE(test::wait_until_asleep(child->pid(), child->pid()));
  futex_wake_all(words[0]);
  for (const auto& child : children) EXPECT_EQ(child->wait(), "exit 0");
}

TEST(Futex, a_signal_handler_interrupts_the_wait) {
  struct sigaction action{};
  action.sa_handler = [](int) {};
  action.sa_flags = SA_RESTART;  // as Python and others install theirs
  struct sigaction before{};
  ASSERT_EQ(::sigaction(SIGUSR1, &action, &before), 0);
  Word word{0};
  std::atomic<pid_t> parked{0};
  auto result = FutexWait::kWoken;
  std::jthread thread([&] {
    parked.store(thread_id());
    result = futex_wait(word, 0, kLong);
  });
  while (parked.load() == 0) ::sched_yield();
  ASSERT_TRUE(test::wait_until_asleep(::getpid(), parked.load()));
  ::pthread_kill(thread.native_handle(), SIGUSR1);
  thread.join();
  EXPECT_EQ(result, FutexWait::kInterrupted);
  ::sigaction(SIGUSR1, &before, nullptr);
}

TEST(Futex, a_sleeper_that_is_killed_disturbs_nobody) {
  const SharedWords words;
  test::Child victim([&] { return futex_wait(words[0], 0, kLong) == FutexWait::kWoken; });
  ASSERT_TRUE(test::wait_until_asleep(victim.pid(), victim.pid()));
  ::kill(victim.pid(), SIGKILL);
  EXPECT_EQ(victim.wait(), "signal 9");
  futex_wake_all(words[0]);
  EXPECT_EQ(futex_wait(words[0], 0, 1ms), FutexWait::kTimedOut);
}

}  // namespace
}  // namespace tensorbus::platform
