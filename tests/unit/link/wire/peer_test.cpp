#include "tensorbus/link/wire/peer.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>

#include "tensorbus/link/ring/link_segment.hpp"
#include "tensorbus/platform/files/memfd.hpp"
#include "tensorbus/platform/fork/lineage.hpp"
#include "tests/fakes/test_sockets.hpp"

namespace tensorbus::link {
namespace {

using testing::fds_of;

class Handshake : public ::testing::Test {
 protected:
  // What the far end makes of the message that the near end sent.
  std::optional<Code> refusal() {
    Channel::Received received;
    try {
      if (far.receive(received) == Channel::State::kMessage) peer = accept_hello(received);
    } catch (const Error& error) {
      text = error.what();
      return error.code();
    }
    return std::nullopt;
  }
  std::optional<Code> refusal_of(const Hello& said, std::vector<platform::Fd> fds) {
    near.send(said, std::move(fds));
    return refusal();
  }
  platform::Fd wake_page() { return platform::duplicate(page.memfd().get()); }

  testing::SocketPair sockets = testing::connected_sockets();
  Channel near{std::move(sockets.one), [](bool) {}};
  Channel far{std::move(sockets.other), [](bool) {}};
  WakePage page;
  Hello hello{Id::random(), 1, kWakeSlots, 0};
  std::optional<Peer> peer;
  std::string text;
};

TEST_F(Handshake, tells_who_the_peer_is) {
  const Id id = Id::random();
  send_hello(near, id, page);
  EXPECT_EQ(refusal(), std::nullopt);
  EXPECT_EQ(peer->id, id);
  EXPECT_EQ(peer->pid, static_cast<std::uint32_t>(::getpid()));
  EXPECT_TRUE(platform::is_pidfd(peer->pidfd.get()));
}

TEST_F(Handshake, works_without_a_pidfd) {
  EXPECT_EQ(refusal_of(hello, fds_of(wake_page())), std::nullopt);
  EXPECT_FALSE(peer->pidfd);
}

TEST_F(Handshake, another_version_is_refused_with_both_versions_named) {
  std::vector<std::byte> bytes = encode_control(hello);
  bytes[6] = std::byte{99};
  ASSERT_GT(::send(near.fd(), bytes.data(), bytes.size(), 0), 0);
  EXPECT_EQ(refusal(), Code::kVersionMismatch);
  EXPECT_NE(text.find("version 99"), std::string::npos) << text;
  EXPECT_NE(text.find("version " + std::to_string(kProtocolVersion)), std::string::npos) << text;
}

TEST_F(Handshake, another_layout_of_shared_memory_is_refused_with_both_versions_named) {
  hello.layout = 99;
  EXPECT_EQ(refusal_of(hello, fds_of(wake_page())), Code::kVersionMismatch);
  EXPECT_NE(text.find("version 99"), std::string::npos) << text;
  EXPECT_NE(text.find("version " + std::to_string(kLayoutVersion)), std::string::npos) << text;
}

TEST_F(Handshake, another_message_first_is_refused) {
  near.send(Done{1});
  EXPECT_EQ(refusal(), Code::kProtocol);
}

TEST_F(Handshake, a_pipe_instead_of_a_wake_page_is_refused) {
  EXPECT_EQ(refusal_of(hello, fds_of(testing::some_pipe())), Code::kProtocol);
  EXPECT_NE(text.find("HELLO.wake_page"), std::string::npos) << text;
}

TEST_F(Handshake, an_unsealed_wake_page_is_refused) {
  EXPECT_EQ(refusal_of(hello, fds_of(testing::unsealed_memfd(kWakePageBytes))), Code::kProtocol);
}

TEST_F(Handshake, a_wake_page_of_another_size_is_refused) {
  EXPECT_EQ(refusal_of(hello, fds_of(platform::create_sealed_memfd("x", kWakePageBytes - 4096))),
            Code::kProtocol);
  hello.wake_slots = kWakeSlots - 1;
  EXPECT_EQ(refusal_of(hello, fds_of(wake_page())), Code::kProtocol);
}

TEST_F(Handshake, a_wake_page_that_cannot_be_written_is_refused) {
  EXPECT_NE(refusal_of(hello, fds_of(platform::reopen_read_only(page.memfd().get()))),
            std::nullopt);
}

TEST_F(Handshake, descriptors_that_are_missing_or_too_many_are_refused) {
  EXPECT_EQ(refusal_of(hello, {}), Code::kProtocol);
  EXPECT_EQ(refusal_of(hello, fds_of(wake_page(), wake_page())), Code::kProtocol);
  hello.has_pidfd = 1;
  EXPECT_EQ(refusal_of(hello, fds_of(wake_page())), Code::kProtocol);
  EXPECT_EQ(refusal_of(hello, fds_of(wake_page(), wake_page(), wake_page())), Code::kProtocol);
  EXPECT_EQ(refusal_of(hello, fds_of(wake_page(), wake_page(), wake_page(), wake_page())),
            Code::kProtocol);
  hello.has_pidfd = 2;
  EXPECT_EQ(refusal_of(hello, fds_of(wake_page(), wake_page(), wake_page())), Code::kProtocol);
}

TEST_F(Handshake, something_else_than_a_pidfd_is_refused) {
  hello.has_pidfd = 1;
  EXPECT_EQ(refusal_of(hello, fds_of(wake_page(), testing::some_pipe())), Code::kProtocol);
}

TEST_F(Handshake, a_lineage_is_the_end_of_a_pipe_for_reading) {
  EXPECT_EQ(refusal_of(hello, fds_of(wake_page(), testing::some_pipe())), std::nullopt);
  EXPECT_EQ(refusal_of(hello, fds_of(wake_page(), platform::make_event())), Code::kProtocol);
  const platform::Fd own = platform::own_lineage();
  EXPECT_EQ(refusal_of(hello, fds_of(wake_page(), platform::duplicate(own.get()))), std::nullopt);
}

TEST_F(Handshake, a_process_of_another_user_is_refused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can be another user";
  char path[] = "/tmp/tensorbus-test-XXXXXX";
  ASSERT_NE(::mkdtemp(path), nullptr);
  const platform::Fd directory(::open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const platform::Fd listener = platform::listen_in(directory.get(), "new", "sock");
  const pid_t child = ::fork();
  if (child == 0) {  // descriptors of ours are closed here: it goes by the path
    if (::chmod(path, 0755) != 0 || ::chmod((std::string(path) + "/sock").c_str(), 0777) != 0 ||
        ::setuid(65534) != 0)
      ::_exit(2);
    const int socket = ::open(path, O_RDONLY | O_DIRECTORY);
    ::_exit(platform::connect_in(socket, "sock").outcome == platform::Connect::kDone ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  const platform::Fd accepted = platform::accept_from(listener.get());
  ASSERT_TRUE(accepted);
  EXPECT_THROW(check_same_user(accepted.get()), Error);
  EXPECT_NO_THROW(check_same_user(near.fd()));
  ::unlink((std::string(path) + "/sock").c_str());
  ::rmdir(path);
}

TEST(LinkMemory, is_refused_unless_it_is_what_it_should_be) {
  const Geometry geometry = Geometry::for_link(8, 16);
  LinkSegment owner(geometry);
  EXPECT_NO_THROW(LinkSegment(platform::duplicate(owner.memfd().get()), geometry));
  EXPECT_THROW(LinkSegment(testing::some_pipe(), geometry), Error);
  EXPECT_THROW(LinkSegment(testing::unsealed_memfd(geometry.bytes()), geometry), Error);
  const auto refused = [&](Geometry other) {
    EXPECT_THROW(LinkSegment(platform::duplicate(owner.memfd().get()), other), Error)
        << other.slots << ", " << other.returns;
  };
  refused({0, 32});
  refused({8, 0});
  refused({7, 32});
  refused({8, 33});
  refused({2 * kMaxDepth, 32});
  refused({8, 4 * kMaxHeld});
  refused({64, 32});
}

TEST(LinkMemory, both_ends_see_the_same_words) {
  LinkSegment owner(Geometry::for_link(5, 3));
  LinkSegment borrower(platform::duplicate(owner.memfd().get()), owner.geometry());
  EXPECT_EQ(owner.slots().size(), 8U);
  EXPECT_EQ(owner.returns().size(), 8U);
  owner.slots()[7].words[14] = 1;
  *borrower.return_tail() = 2;
  borrower.returns()[7].token = 3;
  EXPECT_EQ(borrower.slots()[7].words[14].load(), 1U);
  EXPECT_EQ(owner.return_tail()->load(), 2U);
  EXPECT_EQ(owner.returns()[7].token.load(), 3U);
}

}  // namespace
}  // namespace tensorbus::link
