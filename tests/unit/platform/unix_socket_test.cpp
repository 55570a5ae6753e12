#include "tensorbus/platform/unix_socket.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <array>

#include "tensorbus/platform/files/directory.hpp"
#include "tensorbus/platform/files/mapping.hpp"
#include "tensorbus/platform/files/memfd.hpp"
#include "tensorbus/platform/files/private_directory.hpp"
#include "tests/unit/platform/test_support.hpp"

namespace tensorbus::platform {
namespace {

using test::Child;
using test::error_of;

std::span<const std::byte> bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}
std::string text_of(const Datagram& datagram) {
  return {reinterpret_cast<const char*>(datagram.bytes.data()), datagram.bytes.size()};
}
void wait_readable(int fd) {
  pollfd entry{fd, POLLIN, 0};
  ASSERT_EQ(::poll(&entry, 1, -1), 1);
}
Transfer receive_when_ready(int fd, Datagram& datagram, std::size_t max_bytes = 4096,
                            std::size_t max_fds = 3) {
  pollfd entry{fd, POLLIN, 0};
  ::poll(&entry, 1, -1);
  return receive_datagram(fd, max_bytes, max_fds, datagram);
}

class UnixSocket : public ::testing::Test {
 protected:
  Fd accept() const {
    wait_readable(listener_.get());
    return accept_from(listener_.get());
  }

  test::TemporaryDirectory base_;
  Fd directory_ = open_private_directory(base_.path());
  Fd listener_ = listen_in(directory_.get(), ".a.tmp", "a.sock");
};

TEST_F(UnixSocket, has_its_name_and_the_temporary_one_is_gone) {
  EXPECT_EQ(::access((base_ / "a.sock").c_str(), F_OK), 0);
  EXPECT_NE(::access((base_ / ".a.tmp").c_str(), F_OK), 0);
  EXPECT_EQ(connect_in(directory_.get(), "a.sock").outcome, Connect::kDone);
}

TEST_F(UnixSocket, does_not_take_a_temporary_name_that_exists) {
  base_.write(".b.tmp", "");
  EXPECT_EQ(error_of([&] { listen_in(directory_.get(), ".b.tmp", "b.sock"); }), "System");
}

TEST_F(UnixSocket, works_in_a_directory_whose_path_fits_no_address) {
  const std::string deep = base_ / std::string(120, 'x') + "/" + std::string(200, 'y');
  const Fd directory = open_private_directory(deep);
  const Fd listener = listen_in(directory.get(), ".long.tmp", "long.sock");
  EXPECT_EQ(::access((deep + "/long.sock").c_str(), F_OK), 0);
  const Connection connection = connect_in(directory.get(), "long.sock");
  ASSERT_EQ(connection.outcome, Connect::kDone);
  EXPECT_TRUE(accept_from(listener.get()));
}

TEST_F(UnixSocket, refuses_a_name_that_fits_no_address) {
  const std::string name(120, 'n');
  EXPECT_EQ(error_of([&] { connect_in(directory_.get(), name); }), "InvalidArgument");
  EXPECT_EQ(error_of([&] { listen_in(directory_.get(), name, "short"); }), "InvalidArgument");
}

TEST_F(UnixSocket, is_dead_when_nobody_listens) {
  base_.write("file", "");
  const Fd bound(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  (base_ / "bound").copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(bound.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  for (const char* name : {"missing", "file", "bound"})
    EXPECT_EQ(connect_in(directory_.get(), name).outcome, Connect::kDead) << name;
  listener_.reset();
  EXPECT_EQ(connect_in(directory_.get(), "a.sock").outcome, Connect::kDead);
}

TEST_F(UnixSocket, is_dead_when_its_process_was_killed_and_alive_before) {
  Child child([&] {
    const Fd directory = open_private_directory(base_.path());
    const Fd listener = listen_in(directory.get(), ".b.tmp", "b.sock");
    const Connection ready = connect_in(directory.get(), "a.sock");
    ::pause();
    return false;
  });
  const Fd ready = accept();  // it listens now
  EXPECT_EQ(connect_in(directory_.get(), "b.sock").outcome, Connect::kDone);
  ::kill(child.pid(), SIGKILL);
  EXPECT_EQ(child.wait(), "signal 9");
  EXPECT_EQ(connect_in(directory_.get(), "b.sock").outcome, Connect::kDead);
}

TEST_F(UnixSocket, is_busy_and_not_dead_while_its_backlog_is_full) {
  ASSERT_EQ(::listen(listener_.get(), 0), 0);  // room for one
  const Connection first = connect_in(directory_.get(), "a.sock");
  ASSERT_EQ(first.outcome, Connect::kDone);
  EXPECT_EQ(connect_in(directory_.get(), "a.sock").outcome, Connect::kBusy);
  const Fd accepted = accept_from(listener_.get());
  EXPECT_EQ(connect_in(directory_.get(), "a.sock").outcome, Connect::kDone);
}

TEST_F(UnixSocket, accepts_nothing_when_nobody_came) {
  EXPECT_FALSE(accept_from(listener_.get()));
  EXPECT_FALSE(accept_from(-1));
}

TEST_F(UnixSocket, knows_the_process_on_the_other_side) {
  Child child([&] {
    const Fd directory = open_private_directory(base_.path());
    const Connection connection = connect_in(directory.get(), "a.sock");
    Datagram datagram;
    return receive_when_ready(connection.socket.get(), datagram) == Transfer::kEnded;
  });
  Fd accepted = accept();
  const Credentials credentials = peer_credentials(accepted.get());
  EXPECT_EQ(credentials.pid, child.pid());
  EXPECT_EQ(credentials.uid, ::geteuid());
  accepted.reset();
  EXPECT_EQ(child.wait(), "exit 0");
  EXPECT_EQ(error_of([] { peer_credentials(-1); }), "System");
}

// Both ends of a connection in this process.
class Datagrams : public ::testing::Test {
 protected:
  Datagrams() {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) == 0) {
      here_ = Fd(ends[0]);
      there_ = Fd(ends[1]);
    }
  }
  Transfer send(std::string_view text, std::span<const int> fds = {}) const {
    return send_datagram(here_.get(), bytes_of(text), fds);
  }
  Transfer receive(std::size_t max_bytes = 4096, std::size_t max_fds = 3) {
    return receive_datagram(there_.get(), max_bytes, max_fds, datagram_);
  }

  Fd here_;
  Fd there_;
  Datagram datagram_;
};

TEST_F(Datagrams, keep_their_borders_and_their_order) {
  EXPECT_EQ(receive(), Transfer::kWouldBlock);
  ASSERT_EQ(send("one"), Transfer::kDone);
  ASSERT_EQ(send("three"), Transfer::kDone);
  ASSERT_EQ(receive(), Transfer::kDone);
  EXPECT_EQ(text_of(datagram_), "one");
  ASSERT_EQ(receive(), Transfer::kDone);
  EXPECT_EQ(text_of(datagram_), "three");
  EXPECT_FALSE(datagram_.truncated);
  EXPECT_EQ(receive(), Transfer::kWouldBlock);
}

TEST_F(Datagrams, carry_descriptors_that_work_in_another_process) {
  const Fd memory = create_sealed_memfd("test", page_bytes());
  const Fd event = make_event();
  const int socket_of_child = ::dup(there_.get());  // not guarded: the child keeps it
  Child child([&] {
    Datagram datagram;
    if (receive_when_ready(socket_of_child, datagram) != Transfer::kDone) return false;
    if (text_of(datagram) != "take these" || datagram.fds.size() != 2) return false;
    const Mapping mapping(datagram.fds[0].get(), page_bytes(), Mapping::Access::kReadWrite);
    mapping.data()[0] = std::byte{77};
    signal_event(datagram.fds[1].get());
    return true;
  });
  ::close(socket_of_child);
  const std::array fds{memory.get(), event.get()};
  ASSERT_EQ(send("take these", fds), Transfer::kDone);
  wait_readable(event.get());
  EXPECT_EQ(child.wait(), "exit 0");
  const Mapping mapping(memory.get(), page_bytes(), Mapping::Access::kRead);
  EXPECT_EQ(mapping.data()[0], std::byte{77});
}

TEST_F(Datagrams, deliver_descriptors_that_neither_exec_nor_fork_passes_on) {
  const std::array fds{STDERR_FILENO};
  ASSERT_EQ(send("x", fds), Transfer::kDone);
  ASSERT_EQ(receive(), Transfer::kDone);
  ASSERT_EQ(datagram_.fds.size(), 1U);
  const int received = datagram_.fds[0].get();
  EXPECT_EQ(::fcntl(received, F_GETFD), FD_CLOEXEC);
  Child child([&] { return !test::is_open(received); });
  EXPECT_EQ(child.wait(), "exit 0");
}

TEST_F(Datagrams, that_are_longer_than_allowed_are_marked) {
  ASSERT_EQ(send("12345678"), Transfer::kDone);
  ASSERT_EQ(send("12345678"), Transfer::kDone);
  ASSERT_EQ(receive(7), Transfer::kDone);
  EXPECT_TRUE(datagram_.truncated);
  ASSERT_EQ(receive(8), Transfer::kDone);
  EXPECT_FALSE(datagram_.truncated);
}

TEST_F(Datagrams, with_more_descriptors_than_allowed_are_marked_and_leak_none) {
  const std::vector<int> many(40, STDERR_FILENO);
  const std::size_t open_before = test::open_descriptors();
  iovec part{const_cast<char*>("x"), 1};
  for (const std::size_t count : {4, 16, 17, 40}) {
    std::vector<char> control(CMSG_SPACE(sizeof(int) * count));
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    *CMSG_FIRSTHDR(&message) = {CMSG_LEN(sizeof(int) * count), SOL_SOCKET, SCM_RIGHTS};
    std::copy_n(many.data(), count, reinterpret_cast<int*>(CMSG_DATA(CMSG_FIRSTHDR(&message))));
    ASSERT_EQ(::sendmsg(here_.get(), &message, 0), 1);
    ASSERT_EQ(receive(), Transfer::kDone);
    EXPECT_TRUE(datagram_.truncated) << count;
    ASSERT_EQ(send("next"), Transfer::kDone);
    ASSERT_EQ(receive(), Transfer::kDone);
    EXPECT_FALSE(datagram_.truncated);
    EXPECT_EQ(test::open_descriptors(), open_before) << count;
  }
}

TEST_F(Datagrams, with_more_descriptors_than_any_message_has_are_our_bug) {
  const std::vector<int> many(17, STDERR_FILENO);
  EXPECT_DEATH((void)send("x", many), "internal invariant broken at .*unix_socket.cpp");
}

TEST_F(Datagrams, wait_while_the_socket_is_full_and_go_when_it_drained) {
  const std::string large(4096, 'x');
  std::size_t sent = 0;
  while (send(large) == Transfer::kDone) ++sent;
  EXPECT_GT(sent, 0U);
  EXPECT_EQ(send(large), Transfer::kWouldBlock);
  for (std::size_t i = 0; i < sent; ++i) ASSERT_EQ(receive(), Transfer::kDone);
  EXPECT_EQ(send(large), Transfer::kDone);
}

TEST_F(Datagrams, end_when_the_other_side_closes) {
  ASSERT_EQ(send("last words"), Transfer::kDone);
  here_.reset();
  ASSERT_EQ(receive(), Transfer::kDone);
  EXPECT_EQ(text_of(datagram_), "last words");
  EXPECT_EQ(receive(), Transfer::kEnded);
  EXPECT_EQ(receive(), Transfer::kEnded);
  EXPECT_EQ(send_datagram(there_.get(), bytes_of("x"), {}), Transfer::kEnded);  // and no SIGPIPE
}

// The kernel reports ECONNRESET first when the other side had not read everything we sent.
TEST_F(Datagrams, of_a_process_that_was_killed_are_heard_even_if_it_left_ours_unread) {
  ASSERT_EQ(send_datagram(there_.get(), bytes_of("never read"), {}), Transfer::kDone);
  const int socket_of_child = here_.release();
  Child child([&] {
    (void)send_datagram(socket_of_child, bytes_of("one"), {});
    (void)send_datagram(socket_of_child, bytes_of("two"), {});
    ::kill(::getpid(), SIGKILL);
    return false;
  });
  ::close(socket_of_child);
  EXPECT_EQ(child.wait(), "signal 9");
  ASSERT_EQ(receive(), Transfer::kDone);
  EXPECT_EQ(text_of(datagram_), "one");
  ASSERT_EQ(receive(), Transfer::kDone);
  EXPECT_EQ(text_of(datagram_), "two");
  EXPECT_EQ(receive(), Transfer::kEnded);
}

TEST_F(Datagrams, cannot_travel_over_what_is_no_socket) {
  const Fd event = make_event();
  EXPECT_EQ(error_of([&] { (void)send_datagram(event.get(), bytes_of("x"), {}); }), "System");
  EXPECT_EQ(error_of([&] { (void)receive_datagram(event.get(), 10, 1, datagram_); }), "System");
}

}  // namespace
}  // namespace tensorbus::platform
