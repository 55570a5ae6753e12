#include "tensorbus/platform/files/directory.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

#include "tensorbus/platform/files/private_directory.hpp"
#include "tests/unit/platform/files/directory_test_support.hpp"

namespace tensorbus::platform {
namespace {

using test::error_of;
using test::mode_of;
using test::names_in;
using test::TemporaryDirectory;

TEST(Files, are_made_once_and_removed_at_will) {
  const TemporaryDirectory base;
  const Fd directory = open_private_directory(base.path());
  create_file(directory.get(), "marker");
  EXPECT_EQ(error_of([&] { create_file(directory.get(), "marker"); }), "System");
  EXPECT_EQ(mode_of(base / "marker") & 077, 0U);
  EXPECT_EQ(names_in(directory.get()), std::vector<std::string>{"marker"});
  remove_file(directory.get(), "marker");
  remove_file(directory.get(), "marker");
  EXPECT_EQ(names_in(directory.get()), std::vector<std::string>{});
}

TEST(Files, are_read_up_to_a_limit_and_are_empty_when_there_is_nothing_to_read) {
  const TemporaryDirectory base;
  const Fd directory = open_private_directory(base.path());
  create_file(directory.get(), "marker", "content");
  EXPECT_EQ(read_file(directory.get(), "marker", 100), "content");
  EXPECT_EQ(read_file(directory.get(), "marker", 3), "con");
  create_file(directory.get(), "empty");
  for (const char* name : {"empty", "missing", "."})
    EXPECT_EQ(read_file(directory.get(), name, 100), "") << name;
}

TEST(Files, are_listed_from_the_start_each_time_and_leave_no_descriptor_open) {
  const TemporaryDirectory base;
  const Fd directory = open_private_directory(base.path());
  std::vector<std::string> expected;
  for (int i = 0; i < 300; ++i) {
    expected.push_back(std::to_string(1000 + i));
    create_file(directory.get(), expected.back());
  }
  const std::size_t open_before = test::open_descriptors();
  EXPECT_EQ(names_in(directory.get()), expected);
  EXPECT_EQ(names_in(directory.get()), expected);
  EXPECT_EQ(test::open_descriptors(), open_before);
}

TEST(Files, cannot_be_listed_or_made_where_no_directory_is) {
  EXPECT_EQ(error_of([] { list_directory(-1); }), "System");
  EXPECT_EQ(error_of([] { create_file(-1, "marker"); }), "System");
}

class DirectoryWatchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (watch_.fd() < 0) GTEST_SKIP() << "no inotify instance left for this user";
  }
  bool notices() {
    pollfd entry{watch_.fd(), POLLIN, 0};
    return ::poll(&entry, 1, 0) == 1 && watch_.drain_changes();
  }

  TemporaryDirectory base_;
  Fd directory_ = open_private_directory(base_.path());
  DirectoryWatch watch_{directory_.get()};
};

TEST_F(DirectoryWatchTest, says_nothing_when_nothing_happened) {
  EXPECT_FALSE(watch_.drain_changes());
}

TEST_F(DirectoryWatchTest, notices_what_comes_goes_and_gets_its_name) {
  create_file(directory_.get(), "marker");
  EXPECT_TRUE(notices());
  EXPECT_FALSE(watch_.drain_changes());
  remove_file(directory_.get(), "marker");
  EXPECT_TRUE(notices());
  base_.write(".temporary", "");
  EXPECT_TRUE(notices());
  ASSERT_EQ(std::rename((base_ / ".temporary").c_str(), (base_ / "name").c_str()), 0);
  EXPECT_TRUE(notices());
  EXPECT_FALSE(watch_.drain_changes());
}

TEST_F(DirectoryWatchTest, notices_that_a_file_has_its_content) {
  Fd file(::openat(directory_.get(), "marker", O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  EXPECT_TRUE(notices());
  ASSERT_EQ(::write(file.get(), "content", 7), 7);
  file.reset();
  EXPECT_TRUE(notices());
  EXPECT_FALSE(notices());
}

TEST_F(DirectoryWatchTest, notices_what_another_process_does) {
  test::Child child([&] {
    create_file(open_private_directory(base_.path()).get(), "marker");
    return true;
  });
  pollfd entry{watch_.fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&entry, 1, -1), 1);
  EXPECT_TRUE(watch_.drain_changes());
  EXPECT_EQ(child.wait(), "exit 0");
}

TEST_F(DirectoryWatchTest, takes_an_overflow_as_a_change) {
  std::size_t most = 0;
  std::ifstream("/proc/sys/fs/inotify/max_queued_events") >> most;
  if (most == 0 || most > 100'000) GTEST_SKIP() << "a queue too long to fill: " << most;
  for (std::size_t i = 0; i <= most / 2; ++i) {
    create_file(directory_.get(), "marker");
    remove_file(directory_.get(), "marker");
  }
  EXPECT_TRUE(watch_.drain_changes());
  EXPECT_FALSE(watch_.drain_changes());
  create_file(directory_.get(), "marker");
  EXPECT_TRUE(notices());
}

TEST(DirectoryWatch, that_cannot_watch_makes_its_owner_look_each_time) {
  const TemporaryDirectory base;
  DirectoryWatch watch(-1);
  EXPECT_EQ(watch.fd(), -1);
  EXPECT_TRUE(watch.drain_changes());
  EXPECT_TRUE(watch.drain_changes());
}

}  // namespace
}  // namespace tensorbus::platform
