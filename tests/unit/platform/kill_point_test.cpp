#include "tensorbus/platform/kill_point.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tests/unit/platform/test_support.hpp"

namespace tensorbus::platform {
namespace {

// What the executed child does: three passages of one step, one of another, a byte for each.
TEST(Step, DISABLED_walks) {
  for (const char* name : {"hello.sent", "drop.taken", "hello.sent", "hello.sent"}) {
    kill_point(name);
    ASSERT_EQ(::write(STDOUT_FILENO, "#", 1), 1);
  }
}

// A process that walks under an order. The order is read once, so it has to be executed anew.
struct Walk {
  explicit Walk(const char* order) : order_(order) {
    if (::pipe(ends_) != 0) std::abort();
  }
  ~Walk() {
    for (const int fd : ends_) ::close(fd);
  }
  bool run() const {
    ::dup2(ends_[1], STDOUT_FILENO);
    ::setenv("TENSORBUS_KILL_POINT", order_, 1);
    ::execl("/proc/self/exe", "walk", "--gtest_also_run_disabled_tests", "--gtest_brief=1",
            "--gtest_filter=Step.DISABLED_walks", nullptr);
    return false;
  }
  // The steps that it took until now.
  int steps() const {
    std::string text(4096, '\0');
    ::fcntl(ends_[0], F_SETFL, O_NONBLOCK);
    const ssize_t length = ::read(ends_[0], text.data(), text.size());
    return static_cast<int>(
        std::count(text.begin(), text.begin() + std::max<ssize_t>(length, 0), '#'));
  }

 private:
  const char* order_;
  int ends_[2] = {-1, -1};
};

TEST(Step, kills_the_process_at_the_passage_that_was_ordered) {
  if (!TENSORBUS_KILL_POINTS) GTEST_SKIP() << "built without TENSORBUS_KILL_POINTS";
  const Walk walk("hello.sent:2:kill");
  test::Child child([&] { return walk.run(); });
  EXPECT_EQ(child.wait(), "signal " + std::to_string(SIGKILL));
  EXPECT_EQ(walk.steps(), 2);
}

TEST(Step, stops_the_process_which_goes_on_when_it_is_continued) {
  if (!TENSORBUS_KILL_POINTS) GTEST_SKIP() << "built without TENSORBUS_KILL_POINTS";
  const Walk walk("hello.sent:3:stop");
  test::Child child([&] { return walk.run(); });
  EXPECT_EQ(child.wait(), "stop " + std::to_string(SIGSTOP));
  EXPECT_EQ(walk.steps(), 3);
  ::kill(child.pid(), SIGCONT);
  EXPECT_EQ(child.wait(), "exit 0");
  EXPECT_EQ(walk.steps(), 1);
}

TEST(Step, ends_the_process_without_a_signal) {
  if (!TENSORBUS_KILL_POINTS) GTEST_SKIP() << "built without TENSORBUS_KILL_POINTS";
  const Walk walk("drop.taken:1:exit");
  test::Child child([&] { return walk.run(); });
  EXPECT_EQ(child.wait(), "exit 0");
  EXPECT_EQ(walk.steps(), 1);
}

TEST(Step, does_nothing_for_a_passage_that_never_comes) {
  for (const char* order : {"hello.sent:4:kill", "publish.copied:1:kill", "hello.sent:0:kill"}) {
    const Walk walk(order);
    test::Child child([&] { return walk.run(); });
    EXPECT_EQ(child.wait(), "exit 0") << order;
    EXPECT_EQ(walk.steps(), 4) << order;
  }
}

TEST(Step, no_name_is_listed_twice) {
  EXPECT_EQ(std::set<std::string_view>(kKillPoints.begin(), kKillPoints.end()).size(),
            kKillPoints.size());
}

}  // namespace
}  // namespace tensorbus::platform
