#include "tensorbus/platform/fd.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <array>
#include <cstdint>

#include "tensorbus/platform/files/memfd.hpp"
#include "tests/unit/platform/test_support.hpp"

namespace tensorbus::platform {
namespace {

using test::is_open;

bool readable(int fd) {
  pollfd entry{fd, POLLIN, 0};
  return ::poll(&entry, 1, 0) == 1;
}

TEST(Fd, closes_what_it_owns) {
  int number = -1;
  {
    const Fd fd = make_event();
    number = fd.get();
    EXPECT_TRUE(is_open(number));
  }
  EXPECT_FALSE(is_open(number));
}

TEST(Fd, moves_and_leaves_the_source_empty) {
  Fd first = make_event();
  const int number = first.get();
  Fd second = std::move(first);
  EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move): that is the question
  EXPECT_EQ(second.get(), number);

  Fd third = make_event();
  const int replaced = third.get();
  third = std::move(second);
  EXPECT_EQ(third.get(), number);
  EXPECT_FALSE(is_open(replaced));
  EXPECT_TRUE(is_open(number));
}

TEST(Fd, survives_a_move_to_itself) {
  Fd fd = make_event();
  Fd& same = fd;
  fd = std::move(same);
  EXPECT_TRUE(is_open(fd.get()));
}

TEST(Fd, hands_over_what_it_releases) {
  Fd fd = make_event();
  const int number = fd.release();
  EXPECT_FALSE(fd);
  fd.reset();
  EXPECT_TRUE(is_open(number));
  ::close(number);
}

TEST(Fd, an_executed_program_inherits_none_that_we_make) {
  const Fd event = make_event();
  const Fd copy = duplicate(event.get());
  const Fd memory = create_sealed_memfd("test", page_bytes());
  const Fd reopened = reopen_read_only(memory.get());
  const Fd pidfd = open_own_pidfd();
  for (const Fd* fd : {&event, &copy, &memory, &reopened, &pidfd})
    EXPECT_EQ(::fcntl(fd->get(), F_GETFD), FD_CLOEXEC) << fd->get();
}

TEST(Fd, a_duplicate_is_the_same_open_file) {
  Fd event = make_event();
  const Fd copy = duplicate(event.get());
  event.reset();
  signal_event(copy.get());
  EXPECT_TRUE(readable(copy.get()));
  EXPECT_EQ(test::error_of([] { duplicate(-1); }), "System");
}

TEST(Event, is_readable_from_a_signal_until_it_is_cleared) {
  const Fd event = make_event();
  EXPECT_FALSE(readable(event.get()));
  signal_event(event.get());
  signal_event(event.get());
  EXPECT_TRUE(readable(event.get()));
  clear_event(event.get());
  EXPECT_FALSE(readable(event.get()));
  clear_event(event.get());  // returns, although there is nothing to clear
}

TEST(Event, a_full_counter_does_not_block_the_signaller) {
  const Fd event = make_event();
  const std::uint64_t most = 0xfffffffffffffffe;
  ASSERT_EQ(::write(event.get(), &most, sizeof most), 8);
  signal_event(event.get());
  EXPECT_TRUE(readable(event.get()));
}

TEST(Pidfd, becomes_readable_when_its_process_dies) {
  std::array<int, 2> quit{};
  ASSERT_EQ(::pipe(quit.data()), 0);
  test::Child child([&] {
    ::close(quit[1]);
    char byte = 0;
    return ::read(quit[0], &byte, 1) == 0;
  });
  const Fd pidfd(static_cast<int>(::syscall(434, child.pid(), 0)));
  ASSERT_TRUE(pidfd);
  EXPECT_TRUE(is_pidfd(pidfd.get()));
  EXPECT_FALSE(readable(pidfd.get()));
  ::close(quit[1]);
  pollfd entry{pidfd.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&entry, 1, -1), 1);
  EXPECT_EQ(child.wait(), "exit 0");
  ::close(quit[0]);
}

TEST(Fd, the_open_descriptors_of_the_process_are_counted_whatever_their_numbers) {
  const std::size_t before = open_descriptors();
  ASSERT_GT(before, 2U);
  {
    const Fd far(::fcntl(0, F_DUPFD_CLOEXEC, 200));
    const Fd near = make_event();
    EXPECT_EQ(open_descriptors(), before + 2);
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST(WhatAPeerHandedOver, is_told_by_the_name_the_kernel_gives_it) {
  const Fd event = make_event();
  const Fd pidfd = open_own_pidfd();
  const Fd memory = create_sealed_memfd("[eventfd] [pidfd] pidfd:", page_bytes());
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  const Fd reader(ends[0]);
  const Fd writer(ends[1]);
  ASSERT_TRUE(pidfd);
  EXPECT_TRUE(is_pidfd(pidfd.get()));
  for (const int fd : {event.get(), memory.get(), reader.get(), writer.get(), -1})
    EXPECT_FALSE(is_pidfd(fd)) << fd;
}

TEST(WhatAPeerHandedOver, is_no_pidfd_because_its_file_is_called_so) {
  const test::TemporaryDirectory directory;
  for (const char* name : {"anon_inode:[pidfd]", "pidfd:[1]"}) {
    const std::string path = directory / name;
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    const Fd fifo(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    ASSERT_TRUE(fifo);
    EXPECT_FALSE(is_pidfd(fifo.get())) << name;
  }
}

}  // namespace
}  // namespace tensorbus::platform
