#include "tensorbus/platform/memory_room.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "tests/unit/platform/test_support.hpp"

namespace tensorbus::platform {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

// A /proc and a /sys/fs/cgroup of our own: 1000 MiB available, no cgroup unless a test adds one.
struct FakeMachine {
  FakeMachine() {
    directory.write("proc/meminfo",
                    "MemTotal:        8192000 kB\nMemFree:           10240 kB\n"
                    "MemAvailable:    1024000 kB\n");
  }
  void is_in(const std::string& lines) const { directory.write("proc/self/cgroup", lines); }
  // Version 2: one tree.
  void v2(const std::string& group, const std::string& max, const std::string& current) const {
    directory.write("cgroup" + group + "/memory.max", max + "\n");
    directory.write("cgroup" + group + "/memory.current", current + "\n");
  }
  void v1(const std::string& group, const std::string& limit, const std::string& usage) const {
    directory.write("cgroup/memory" + group + "/memory.limit_in_bytes", limit + "\n");
    directory.write("cgroup/memory" + group + "/memory.usage_in_bytes", usage + "\n");
  }
  MemoryRoom room() const { return memory_room(directory / "proc", directory / "cgroup"); }

  test::TemporaryDirectory directory;
};

std::string mib(std::size_t count) { return std::to_string(count * kMiB); }

TEST(MemoryRoom, is_what_the_machine_has_when_no_cgroup_limits_it) {
  const FakeMachine machine;
  EXPECT_EQ(machine.room().bytes, 1000 * kMiB);
  EXPECT_EQ(machine.room().limit, "MemAvailable of this machine");
}

TEST(MemoryRoom, is_unlimited_where_nothing_can_be_read) {
  const test::TemporaryDirectory empty;
  EXPECT_EQ(memory_room(empty.path(), empty.path()).bytes, std::numeric_limits<std::size_t>::max());
}

TEST(MemoryRoom, is_the_room_of_a_v2_cgroup) {
  const FakeMachine machine;
  machine.is_in("0::/user.slice\n");
  machine.v2("/user.slice", mib(500), mib(100));
  EXPECT_EQ(machine.room().bytes, 400 * kMiB);
  EXPECT_EQ(machine.room().limit, "memory.max of cgroup /user.slice");
}

TEST(MemoryRoom, is_that_of_the_tightest_cgroup_above) {
  const FakeMachine machine;
  machine.is_in("0::/a/b/c\n");
  machine.v2("/a/b/c", "max", mib(10));
  machine.v2("/a/b", mib(900), mib(10));
  machine.v2("/a", mib(300), mib(250));
  EXPECT_EQ(machine.room().bytes, 50 * kMiB);
  EXPECT_EQ(machine.room().limit, "memory.max of cgroup /a");
}

TEST(MemoryRoom, counts_the_root_as_a_container_sees_it) {
  const FakeMachine machine;
  machine.is_in("0::/\n");
  machine.v2("", mib(64), mib(4));
  EXPECT_EQ(machine.room().bytes, 60 * kMiB);
  EXPECT_EQ(machine.room().limit, "memory.max of cgroup /");
}

TEST(MemoryRoom, looks_above_a_group_that_is_not_visible_here) {
  const FakeMachine machine;
  machine.is_in("0::/docker/0123\n");
  machine.v2("", mib(64), mib(4));
  EXPECT_EQ(machine.room().bytes, 60 * kMiB);
}

TEST(MemoryRoom, is_nothing_when_more_is_used_than_allowed) {
  const FakeMachine machine;
  machine.is_in("0::/full\n");
  machine.v2("/full", mib(10), mib(11));
  EXPECT_EQ(machine.room().bytes, 0U);
}

TEST(MemoryRoom, is_the_room_of_a_v1_cgroup_among_other_controllers) {
  const FakeMachine machine;
  machine.is_in("9:name=systemd:/elsewhere\n4:cpuset,memory:/job/7\n3:cpu:/job\n0::/\n");
  machine.v1("/job/7", "9223372036854771712", mib(10));
  machine.v1("/job", mib(200), mib(50));
  machine.v1("", "9223372036854771712", mib(4000));
  EXPECT_EQ(machine.room().bytes, 150 * kMiB);
  EXPECT_EQ(machine.room().limit, "memory.limit_in_bytes of cgroup /job");
}

TEST(MemoryRoom, is_the_machine_when_cgroups_are_wider) {
  const FakeMachine machine;
  machine.is_in("0::/wide\n");
  machine.v2("/wide", mib(9000), mib(10));
  EXPECT_EQ(machine.room().bytes, 1000 * kMiB);
}

TEST(MemoryRoom, survives_lines_that_make_no_sense) {
  const FakeMachine machine;
  machine.is_in("\nnonsense\n:\n::\n0:\n0::no-slash\n0::/a\n");
  machine.v2("/a", "not a number", mib(1));
  machine.directory.write("proc/meminfo", "MemAvailable:\nMemAvailable: many kB\n");
  EXPECT_EQ(machine.room().bytes, std::numeric_limits<std::size_t>::max());
}

// A program that reads a large data set fills its cgroup with pages that the kernel drops as soon
// as somebody needs memory.
TEST(MemoryRoom, counts_cached_files_as_room) {
  const FakeMachine machine;
  machine.is_in("0::/job\n4:memory:/job\n");
  machine.v2("/job", mib(500), mib(499));
  machine.directory.write("cgroup/job/memory.stat", "anon 1048576\nfile 500000000\ninactive_file " +
                                                        mib(300) + "\nactive_file " + mib(100) +
                                                        "\nshmem 7\n");
  EXPECT_EQ(machine.room().bytes, 401 * kMiB);

  machine.v1("/job", mib(400), mib(399));
  machine.directory.write("cgroup/memory/job/memory.stat",
                          "inactive_file 1\nactive_file 2\ntotal_inactive_file " + mib(200) +
                              "\ntotal_active_file " + mib(50) + "\n");
  EXPECT_EQ(machine.room().bytes, 251 * kMiB);
}

TEST(MemoryRoom, is_found_on_this_machine) {
  const MemoryRoom room = memory_room();
  EXPECT_GT(room.bytes, 0U);
  EXPECT_LT(room.bytes, std::numeric_limits<std::size_t>::max());
  EXPECT_NE(room.limit, "");
}

}  // namespace
}  // namespace tensorbus::platform
