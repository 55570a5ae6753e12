#include "tensorbus/platform/waiting/life_word.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <new>
#include <thread>

#include "tensorbus/platform/clock.hpp"

namespace tensorbus::platform {
namespace {

using namespace std::chrono_literals;

// A word that children share.
class LifeWord : public ::testing::Test {
 protected:
  LifeWord() {
    void* const page =
        ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) throw std::bad_alloc();
    word_ = new (page) Atomic<std::uint32_t>{0};
  }
  ~LifeWord() override { ::munmap(word_, 4096); }

  bool lives() const { return marked_alive(*word_); }

  // A process of which one thread tells its life, and the main thread then does `then`, and sleeps.
  template <typename Then>
  pid_t living(const Then& then) {
    const pid_t child = ::fork();
    if (child != 0) return child;
    std::thread telling([&] {
      mark_alive(*word_);
      for (;;) ::pause();
    });
    wait_until_living();
    then();
    for (;;) ::pause();
  }
  void wait_until_living() const {
    const Deadline deadline(30s);
    while (!lives() && !deadline.passed()) std::this_thread::yield();
    ASSERT_TRUE(lives());
  }
  static void wait_for(pid_t child) { ASSERT_EQ(::waitpid(child, nullptr, 0), child); }

  Atomic<std::uint32_t>* word_;
};

TEST_F(LifeWord, is_not_marked_at_first) { EXPECT_FALSE(lives()); }

TEST_F(LifeWord, a_thread_lives_until_it_ends) {
  std::atomic<bool> ends = false;
  std::thread thread([&] {
    mark_alive(*word_);
    ends.wait(false);
  });
  wait_until_living();
  ends = true;
  ends.notify_all();
  thread.join();
  EXPECT_FALSE(lives());
}

TEST_F(LifeWord, a_killed_process_is_known_to_be_dead_when_it_can_be_waited_for) {
  for (int i = 0; i < 50; ++i) {
    const pid_t child = living([] {});
    wait_until_living();
    ::kill(child, SIGKILL);
    siginfo_t info{};
    ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
    ASSERT_FALSE(lives());
    wait_for(child);
  }
}

TEST_F(LifeWord, a_stopped_process_lives) {
  const pid_t child = living([] {});
  wait_until_living();
  ::kill(child, SIGSTOP);
  ASSERT_EQ(::waitpid(child, nullptr, WUNTRACED), child);
  EXPECT_TRUE(lives());
  ::kill(child, SIGKILL);
  wait_for(child);
  EXPECT_FALSE(lives());
}

TEST_F(LifeWord, a_process_that_becomes_another_program_lives_no_more) {
  Atomic<std::uint32_t>& seen = word_[1];
  const pid_t child = living([&] {
    while (seen.load() == 0) std::this_thread::yield();
    ::execl("/bin/sleep", "sleep", "1000", nullptr);
  });
  wait_until_living();
  seen.store(1);
  const Deadline deadline(30s);
  while (lives() && !deadline.passed()) std::this_thread::yield();
  EXPECT_FALSE(lives());
  EXPECT_EQ(::waitpid(child, nullptr, WNOHANG), 0);  // sleep(1) runs
  ::kill(child, SIGKILL);
  wait_for(child);
}

TEST_F(LifeWord, the_end_of_a_forked_child_is_not_its_parents) {
  std::atomic<bool> ends = false;
  std::thread thread([&] {
    mark_alive(*word_);
    const pid_t child = ::fork();
    if (child == 0) std::_Exit(0);
    wait_for(child);
    EXPECT_TRUE(lives());
    ends.wait(false);
  });
  wait_until_living();
  EXPECT_TRUE(lives());
  ends = true;
  ends.notify_all();
  thread.join();
  EXPECT_FALSE(lives());
}

TEST_F(LifeWord, garbage_of_others_leads_nowhere) {
  const pid_t child = living([] {});
  wait_until_living();
  const std::uint32_t tid = word_->load();
  word_->store(0xffffffff);
  ::kill(child, SIGKILL);
  wait_for(child);
  EXPECT_EQ(word_->load(), 0xffffffff);  // it was not the child's any more
  word_->store(tid);
  EXPECT_TRUE(lives());  // as the liar says
}

}  // namespace
}  // namespace tensorbus::platform
