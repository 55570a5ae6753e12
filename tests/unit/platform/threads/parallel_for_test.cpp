#include "tensorbus/platform/threads/parallel_for.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <thread>
#include <vector>

#include "tensorbus/platform/clock.hpp"
#include "tests/unit/platform/test_support.hpp"

namespace tensorbus::platform {
namespace {

using namespace std::chrono_literals;

std::size_t cores() {
  cpu_set_t ours;
  CPU_ZERO(&ours);
  return ::sched_getaffinity(0, sizeof ours, &ours) == 0 ? CPU_COUNT(&ours) : 1;
}

// Returns true if each part was worked on once.
bool works(std::size_t parts) {
  std::vector<std::atomic<int>> calls(parts);
  parallel_for(parts, [&](std::size_t i) { ++calls[i]; });
  return std::ranges::all_of(calls, [](const auto& count) { return count == 1; });
}

// Returns true if another thread made a call. The first part waits for that, a while.
bool one_job_is_shared() {
  const auto caller = std::this_thread::get_id();
  const Deadline deadline(10ms);
  std::atomic<bool> shared = false;
  parallel_for(100, [&](std::size_t) {
    if (std::this_thread::get_id() != caller) shared = true;
    while (!shared && !deadline.passed()) std::this_thread::yield();
  });
  return shared;
}

// They rest after a job in which they came too late.
bool workers_come() {
  const Deadline deadline(60s);
  while (!deadline.passed())
    if (one_job_is_shared()) return true;
  return false;
}

TEST(ParallelFor, works_on_each_part_once) {
  for (const std::size_t parts : {0, 1, 2, 3, 100, 10'000})
    for (int i = 0; i < 20; ++i) EXPECT_TRUE(works(parts)) << parts;
}

TEST(ParallelFor, uses_other_threads) {
  if (cores() < 2) GTEST_SKIP() << "there is one core";
  EXPECT_TRUE(workers_come());
}

TEST(ParallelFor, of_several_callers_keeps_none_waiting) {
  std::atomic<bool> right = true;
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller)
    callers.emplace_back([&] {
      for (int i = 0; i < 200; ++i)
        if (!works(50)) right = false;
    });
  for (std::thread& caller : callers) caller.join();
  EXPECT_TRUE(right);
}

bool becomes(const std::atomic<bool>& flag) {
  const Deadline deadline(20s);
  while (!flag && !deadline.passed()) std::this_thread::yield();
  return flag;
}

TEST(ParallelFor, does_not_wait_for_workers_of_another_caller) {
  if (cores() < 2) GTEST_SKIP() << "there is one core";
  std::atomic<bool> is_shared = false;
  std::atomic<bool> worker_may_go = false;
  std::atomic<bool> is_done = false;
  std::thread first([&] {
    const auto caller = std::this_thread::get_id();
    const Deadline deadline(60s);
    while (!is_shared && !deadline.passed())
      parallel_for(2, [&](std::size_t) {
        if (std::this_thread::get_id() == caller) {
          const Deadline soon(10ms);
          while (!is_shared && !soon.passed()) std::this_thread::yield();
          return;
        }
        is_shared = true;
        (void)becomes(worker_may_go);
      });
    is_done = true;
  });
  EXPECT_TRUE(becomes(is_shared));
  bool was_done = true;
  std::atomic<bool> is_begun = false;
  std::thread second([&] {
    parallel_for(2, [&](std::size_t i) {
      is_begun = true;
      if (i == 0) was_done = becomes(is_done);
    });
  });
  EXPECT_TRUE(becomes(is_begun));
  worker_may_go = true;
  first.join();
  second.join();
  EXPECT_TRUE(was_done);
}

TEST(ParallelFor, of_a_forked_child_has_workers_of_its_own) {
  if (TENSORBUS_SANITIZED) GTEST_SKIP() << "a sanitizer's child may start no thread";
  EXPECT_TRUE(works(100));
  const pid_t child = ::fork();
  if (child == 0) {
    std::_Exit(works(1000) && (cores() < 2 || workers_come()) ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(ParallelFor, starts_no_workers_in_a_process_that_has_one_core) {
  const pid_t child = ::fork();
  if (child == 0) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<std::size_t>(::sched_getcpu()), &one);
    const bool done = ::sched_setaffinity(0, sizeof one, &one) == 0 && works(100);
    std::_Exit(done && !one_job_is_shared() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace tensorbus::platform
