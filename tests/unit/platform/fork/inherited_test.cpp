#include "tensorbus/platform/fork/inherited.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "tensorbus/platform/fork/lineage.hpp"
#include "tensorbus/platform/unix_socket.hpp"
#include "tests/unit/platform/test_support.hpp"

namespace tensorbus::platform {
namespace {

using test::Child;

// Something that a child may have.
struct Item final : Inherited {
  Item() { be_born(); }
  void let_go() noexcept override { gone = true; }
  std::atomic<bool> gone{false};
};

// Who waits here goes on when it is opened for as many.
class Gate {
 public:
  Gate() {
    if (::pipe(ends_.data()) != 0) std::abort();
  }
  ~Gate() {
    for (const int fd : ends_) ::close(fd);
  }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  bool pass() const {
    char byte = 0;
    return ::read(ends_[0], &byte, 1) == 1;
  }
  void open(int count = 1) const {
    for (; count > 0; --count) EXPECT_EQ(::write(ends_[1], "x", 1), 1);
  }
  int reading() const { return ends_[0]; }

 private:
  std::array<int, 2> ends_{};
};

// Returns when at most so many are left, which the kernel says.
void wait_for_children(std::size_t left = 0) {
  while (true) {
    const bool again = look_after_children();
    if (forked_children().guards <= left) return;
    pollfd ended{children_descriptor(), POLLIN, 0};
    ASSERT_GE(::poll(&ended, 1, again ? 10 : -1), 0);
  }
}

class InheritedItems : public ::testing::Test {
 protected:
  ~InheritedItems() override { wait_for_children(); }
  const Inheritable inheritable{Inheritable::Of::kUs};
  Gate end;
};

TEST_F(InheritedItems, are_kept_until_the_child_ends) {
  Item item;
  Child child([&] { return end.pass(); });
  EXPECT_EQ(forked_children().guards, 1U);
  EXPECT_TRUE(keep_for_children(item));
  look_after_children();
  EXPECT_FALSE(item.gone);
  end.open();
  wait_for_children();
  EXPECT_TRUE(item.gone);
  EXPECT_FALSE(may_be_inherited(Item().born()));
}

TEST_F(InheritedItems, were_born_before_the_fork) {
  Child child([&] { return end.pass(); });
  Item later;
  EXPECT_FALSE(may_be_inherited(later.born()));
  EXPECT_FALSE(keep_for_children(later));
  end.open();
}

TEST_F(InheritedItems, are_let_go_when_the_child_calls_exec) {
  Item item;
  Gate finish;
  Child child([&] {
    end.pass();
    ::dup2(finish.reading(), STDIN_FILENO);
    ::execlp("head", "head", "-c1", nullptr);
    return false;
  });
  EXPECT_TRUE(keep_for_children(item));
  end.open();
  wait_for_children();
  EXPECT_TRUE(item.gone);
  finish.open();
  EXPECT_EQ(child.wait(), "exit 0") << "it lived until now";
}

TEST_F(InheritedItems, are_kept_for_a_child_of_a_child) {
  Item item;
  Gate told;
  {
    Child child([&] {
      if (::fork() != 0) return true;
      told.open();
      end.pass();
      ::_exit(0);
    });
    EXPECT_EQ(child.wait(), "exit 0");
  }
  EXPECT_TRUE(told.pass());
  EXPECT_TRUE(keep_for_children(item));
  look_after_children();
  EXPECT_FALSE(item.gone);
  end.open();
  wait_for_children();
  EXPECT_TRUE(item.gone);
}

TEST_F(InheritedItems, are_kept_for_a_child_that_closes_all_descriptors) {
  Item item;
  Gate told;
  Child child([&] {
    const int keeps = ::dup2(end.reading(), 3);
    told.open();
    for (int fd = keeps + 1; fd < 1024; ++fd) ::close(fd);
    char byte = 0;
    return ::read(keeps, &byte, 1) == 1;
  });
  EXPECT_TRUE(keep_for_children(item));
  EXPECT_TRUE(told.pass());
  pollfd closed{children_descriptor(), POLLIN, 0};
  ASSERT_EQ(::poll(&closed, 1, -1), 1);
  EXPECT_TRUE(look_after_children()) << "it is to be looked at again";
  EXPECT_FALSE(item.gone);
  end.open();
  wait_for_children();
  EXPECT_TRUE(item.gone);
}

TEST_F(InheritedItems, wait_for_every_child_that_has_them) {
  Item item;
  Gate end_older;
  Child older([&] { return end_older.pass(); });
  Child newer([&] { return end.pass(); });
  EXPECT_TRUE(keep_for_children(item));
  end.open();
  wait_for_children(1);
  EXPECT_FALSE(item.gone);
  end_older.open();
  wait_for_children();
  EXPECT_TRUE(item.gone);
}

TEST_F(InheritedItems, do_not_wait_for_children_that_came_after_their_end) {
  Item item;
  Gate end_older;
  Child older([&] { return end_older.pass(); });
  EXPECT_TRUE(keep_for_children(item));
  Child newer([&] { return end.pass(); });
  end_older.open();
  wait_for_children(1);
  EXPECT_TRUE(item.gone) << "with a child for every moment nothing would ever come back";
  end.open();
}

TEST_F(InheritedItems, of_a_parent_are_none_of_the_childs_business) {
  Item item;
  Child child([&] {
    if (forked_children().guards != 0 || may_be_inherited(item.born())) return false;
    Child grandchild([] { return true; });
    return forked_children().guards == 0 && grandchild.wait() == "exit 0";  // nothing of its own
  });
  EXPECT_EQ(child.wait(), "exit 0");
}

TEST_F(InheritedItems, are_kept_in_a_child_for_its_own_children) {
  Child child([&] {
    const Inheritable own(Inheritable::Of::kUs);
    Item item;
    Gate end_grandchild;
    Child grandchild([&] { return end_grandchild.pass(); });
    if (!keep_for_children(item)) return false;
    look_after_children();
    if (item.gone) return false;
    end_grandchild.open();
    wait_for_children();
    return item.gone.load();
  });
  EXPECT_EQ(child.wait(), "exit 0");
}

TEST_F(InheritedItems, leave_no_descriptors_behind) {
  const std::size_t before = test::open_descriptors();
  for (int i = 0; i < 20; ++i) {
    Child child([] { return true; });
    EXPECT_EQ(child.wait(), "exit 0");
  }
  wait_for_children();
  EXPECT_LE(test::open_descriptors(), before + 2) << "but for those of the process";
}

// In a child: what it counts has no end.
TEST_F(InheritedItems, are_kept_for_good_where_no_descriptor_is_left_to_see_an_end) {
  Child child([] {
    const Inheritable own(Inheritable::Of::kUs);
    Item first;
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    const rlimit none{3, limit.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &none);
    Child grandchild([] { return true; });
    ::setrlimit(RLIMIT_NOFILE, &limit);
    if (grandchild.wait() != "exit 0" || forked_children().unwatched != 1) return false;
    if (!keep_for_children(first)) return false;
    Item second;
    if (may_be_inherited(second.born())) return false;
    Child another([] { return true; });
    if (!keep_for_children(second)) return false;
    wait_for_children();
    return !first.gone && second.gone;
  });
  EXPECT_EQ(child.wait(), "exit 0");
}

TEST_F(InheritedItems, are_kept_while_many_threads_fork) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 20;
  std::vector<Item> items(kThreads);
  std::atomic<int> kept{0};
  {
    std::vector<std::jthread> threads;
    for (Item& item : items)
      threads.emplace_back([&] {
        for (int round = 0; round < kRounds; ++round) {
          Child child([] { return true; });
          EXPECT_EQ(child.wait(), "exit 0");
        }
        Child last([&] { return end.pass(); });
        if (keep_for_children(item)) ++kept;
        end.open();
        EXPECT_EQ(last.wait(), "exit 0");
      });
  }
  EXPECT_EQ(kept, kThreads);
  wait_for_children();
  for (const Item& item : items) EXPECT_TRUE(item.gone);
}

TEST(Inherited, is_nothing_where_there_is_nothing) {
  Gate end;
  Child child([&] { return end.pass(); });
  EXPECT_EQ(forked_children().guards, 0U);
  end.open();
}

// The lineage of a process that has ended, and had forked a child which waits for `end`.
Fd lineage_of_the_dead(bool borrows, const Gate& end) {
  std::array<int, 2> sockets{};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets.data()), 0);
  Child process([&] {
    std::optional<Inheritable> borrowed;
    if (borrows) borrowed.emplace(Inheritable::Of::kOthers);
    const Fd own = own_lineage();
    if (::fork() == 0) ::_exit(end.pass() ? 0 : 1);
    const std::array<int, 1> fds{own.get()};
    const std::array<std::byte, 1> bytes{};
    return is_lineage(own.get()) && !lineage_ended(own.get()) &&
           send_datagram(sockets[1], bytes, fds) == Transfer::kDone;
  });
  EXPECT_EQ(process.wait(), "exit 0");
  Datagram received;
  EXPECT_EQ(receive_datagram(sockets[0], 1, 1, received), Transfer::kDone);
  for (const int fd : sockets) ::close(fd);
  return std::move(received.fds.at(0));
}

TEST(Lineage, ends_with_the_last_child_that_may_read_what_others_lent) {
  Gate end;
  const Fd lineage = lineage_of_the_dead(true, end);
  EXPECT_TRUE(is_lineage(lineage.get()));
  EXPECT_FALSE(lineage_ended(lineage.get()));
  end.open();
  pollfd hung_up{lineage.get(), 0, 0};
  EXPECT_EQ(::poll(&hung_up, 1, -1), 1);
  EXPECT_TRUE(lineage_ended(lineage.get()));
}

TEST(Lineage, ends_with_the_process_when_its_children_have_inherited_nothing_of_others) {
  Gate end;
  const Fd lineage = lineage_of_the_dead(false, end);
  // The child, which still waits, has closed what it inherited of it, or does so now.
  pollfd hung_up{lineage.get(), 0, 0};
  EXPECT_EQ(::poll(&hung_up, 1, 30'000), 1);
  EXPECT_TRUE(lineage_ended(lineage.get()));
  end.open();
}

TEST(Lineage, is_the_end_of_a_pipe_for_reading) {
  const Gate pipe;
  EXPECT_TRUE(is_lineage(pipe.reading()));
  EXPECT_FALSE(is_lineage(pipe.reading() + 1)) << "the other end";
  EXPECT_FALSE(is_lineage(make_event().get()));
  EXPECT_FALSE(is_lineage(-1));
}

}  // namespace
}  // namespace tensorbus::platform
