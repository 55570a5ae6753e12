#include "tensorbus/platform/fork_guard.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <array>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tensorbus/platform/fd.hpp"
#include "tensorbus/platform/files/memfd.hpp"
#include "tests/unit/platform/test_support.hpp"

namespace tensorbus::platform {
namespace {

using test::Child;
using test::is_open;

TEST(ForkGuard, a_child_closes_guarded_descriptors_and_only_those) {
  std::vector<Fd> guarded;
  std::vector<int> others;
  for (int i = 0; i < 100; ++i) {  // more than one word of bits
    guarded.push_back(make_event());
    others.push_back(::dup(guarded.back().get()));
  }
  Child child([&] {
    for (const Fd& fd : guarded)
      if (is_open(fd.get())) return false;
    for (const int fd : others)
      if (!is_open(fd)) return false;
    return is_open(0) == is_open(STDIN_FILENO) && is_open(STDERR_FILENO);
  });
  EXPECT_EQ(child.wait(), "exit 0");
  for (const Fd& fd : guarded) EXPECT_TRUE(is_open(fd.get()));
  for (const int fd : others) ::close(fd);
}

TEST(ForkGuard, what_was_released_is_inherited) {
  Fd fd = make_event();
  const int number = fd.release();
  Child child([&] { return is_open(number); });
  EXPECT_EQ(child.wait(), "exit 0");
  ::close(number);
}

TEST(ForkGuard, a_number_that_was_closed_is_not_closed_for_its_next_owner) {
  const int number = make_event().get();  // closed again at once
  ASSERT_FALSE(is_open(number));
  ASSERT_EQ(::dup2(STDERR_FILENO, number), number);
  Child child([&] { return is_open(number); });
  EXPECT_EQ(child.wait(), "exit 0");
  ::close(number);
}

TEST(ForkGuard, follows_a_descriptor_through_moves) {
  Fd first = make_event();
  Fd second;
  second = std::move(first);
  const Fd third = std::move(second);
  Child child([&] { return !is_open(third.get()); });
  EXPECT_EQ(child.wait(), "exit 0");
}

TEST(ForkGuard, a_child_of_a_child_guards_its_own) {
  const Fd ours = make_event();
  Child child([&] {
    const Fd its = make_event();  // may well get the number of `ours`
    Child grandchild([&] { return !is_open(its.get()); });
    return is_open(its.get()) && grandchild.wait() == "exit 0";
  });
  EXPECT_EQ(child.wait(), "exit 0");
  EXPECT_TRUE(is_open(ours.get()));
}

TEST(ForkGuard, counts_the_forks_above_a_process) {
  const auto here = fork_generation();
  Child child([&] {
    Child grandchild([&] { return fork_generation() == here + 2; });
    return fork_generation() == here + 1 && grandchild.wait() == "exit 0";
  });
  EXPECT_EQ(child.wait(), "exit 0");
  EXPECT_EQ(fork_generation(), here);
}

TEST(ForkGuard, the_death_of_the_parent_is_seen_although_a_child_lives_on) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
  std::array<int, 2> alive{};  // open for writing in the grandchild
  ASSERT_EQ(::pipe(alive.data()), 0);
  Child parent([&] {
    ::close(ends[0]);
    const Fd guarded(ends[1]);
    if (const pid_t grandchild = ::fork(); grandchild == 0) {
      ::setpgid(0, 0);
      const char byte = static_cast<char>(::write(alive[1], "x", 1));
      ::pause();
      ::_exit(byte);
    }
    ::pause();
    return false;
  });
  ::close(ends[1]);
  char byte = 0;
  ASSERT_EQ(::read(alive[0], &byte, 1), 1);  // the grandchild runs
  pid_t grandchild = -1;
  std::ifstream("/proc/" + std::to_string(parent.pid()) + "/task/" + std::to_string(parent.pid()) +
                "/children") >>
      grandchild;
  ::kill(parent.pid(), SIGKILL);
  EXPECT_EQ(parent.wait(), "signal 9");
  EXPECT_EQ(::read(ends[0], &byte, 1), 0);  // returns: nobody holds the other end
  if (grandchild > 0) {
    EXPECT_EQ(::kill(grandchild, 0), 0) << "it should have outlived its parent";
    ::kill(grandchild, SIGKILL);
  }
  for (const int fd : {ends[0], alive[0], alive[1]}) ::close(fd);
}

TEST(ForkGuard, ignores_numbers_it_has_no_bit_for) {
  close_in_child(-1);
  keep_in_child(-1);
  close_in_child(1 << 20);
  keep_in_child(1 << 20);
  Child child([] { return is_open(STDERR_FILENO); });
  EXPECT_EQ(child.wait(), "exit 0");
}

TEST(ForkGuard, many_threads_guard_and_release_at_once) {
  std::vector<std::vector<Fd>> kept(4);
  {
    std::vector<std::jthread> threads;
    for (auto& mine : kept)
      threads.emplace_back([&mine] {
        for (int round = 0; round < 200; ++round) {
          Fd fd = make_event();
          if (round % 10 == 0) mine.push_back(std::move(fd));
        }
      });
  }
  Child child([&] {
    for (const auto& mine : kept)
      for (const Fd& fd : mine)
        if (is_open(fd.get())) return false;
    return true;
  });
  EXPECT_EQ(child.wait(), "exit 0");
}

TEST(ForkGuard, what_is_abandoned_is_never_destroyed) {
  struct Trap {
    explicit Trap(bool* flag) : destroyed(flag) {}
    Trap(Trap&& other) noexcept : destroyed(std::exchange(other.destroyed, nullptr)) {}
    ~Trap() {
      if (destroyed != nullptr) *destroyed = true;
    }
    bool* destroyed;
  };
  Child child([] {
    bool destroyed = false;
    {
      Trap trap(&destroyed);
      abandon(std::move(trap));
    }
    return !destroyed;
  });
  EXPECT_EQ(child.wait(), "exit 0");
}

}  // namespace
}  // namespace tensorbus::platform
