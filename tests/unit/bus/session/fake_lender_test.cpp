// Peers that lend by message (docs/internals/protocol.md, section 6) rightly and wrongly.

#include <poll.h>
#include <sys/socket.h>

#include "tests/fakes/fake_session.hpp"

namespace tensorbus::bus {
namespace {

using namespace testing;

TEST_F(FakeLender, that_does_it_right_is_believed) {
  write_pattern({reinterpret_cast<std::uint64_t*>(mapping.data()), 64}, kSeed);
  is_requested();
  send_segment();
  lend(one_tensor(0, 64));
  EXPECT_EQ(result(), std::nullopt);
  EXPECT_EQ(seed_of(*sample), kSeed);
  sample.reset();
  is_given_back();
}

TEST_F(FakeLender, of_a_tensor_beyond_its_segment_gets_the_lease_back) {
  is_requested();
  send_segment();
  lend(one_tensor(8, 512));
  EXPECT_EQ(result(), Code::kProtocol);
  is_given_back();
}

TEST_F(FakeLender, of_what_lies_in_a_segment_it_never_sent_gets_the_lease_back) {
  is_requested();
  lend(one_tensor(0, 64));
  EXPECT_EQ(result(), Code::kProtocol);
  is_given_back();
}

TEST_F(FakeLender, of_another_length_than_it_says_gets_the_lease_back) {
  is_requested();
  peer->channel.send(link::Lent{request, 5, 60, 0xffffffff, 0, "short"});
  EXPECT_EQ(result(), Code::kProtocol);
  is_given_back();
}

TEST_F(FakeLender, of_a_descriptor_beyond_its_segment_gets_the_lease_back) {
  is_requested();
  send_segment();
  peer->channel.send(link::Lent{request, 5, 200, 0, 4000, {}});
  EXPECT_EQ(result(), Code::kProtocol);
  is_given_back();
}

TEST_F(FakeLender, that_answers_twice_is_cut_off) {
  is_requested();
  send_segment();
  lend(one_tensor(0, 64));
  lend(one_tensor(0, 64), 6);
  EXPECT_EQ(result(), std::nullopt);
  EXPECT_TRUE(sample) << "what came first counts";
  sample.reset();  // it keeps the socket
  is_cut_off();
}

TEST_F(FakeLender, that_hands_over_what_was_to_be_lent_is_cut_off) {
  is_requested();
  peer->channel.send(link::Handed{request, 4096}, fds_of(platform::duplicate(segment.get())));
  is_cut_off();
  EXPECT_EQ(result(), Code::kClosed);
}

TEST_F(FakeLender, that_denies_is_quoted_in_plain_text) {
  is_requested();
  peer->channel.send(
      link::Denied{request, static_cast<std::uint32_t>(Code::kPermission), "no\xff\n"});
  EXPECT_EQ(result(), Code::kPermission);
}

TEST_F(FakeLender, that_denies_for_no_reason_there_is_is_cut_off) {
  is_requested();
  peer->channel.send(link::Denied{request, 4711, "no"});
  is_cut_off();
  EXPECT_EQ(result(), Code::kClosed);
}

TEST_F(FakeLender, that_dies_without_an_answer_is_not_waited_for) {
  is_requested();
  listener.reset();
  peer.reset();
  EXPECT_EQ(result(), Code::kClosed);
}

TEST_F(FakeLender, that_answers_when_nobody_waits_any_more_gets_the_lease_back) {
  is_requested(1ms);
  EXPECT_EQ(result(), Code::kTimeout);
  send_segment();
  lend(one_tensor(0, 64));
  is_given_back();
}

TEST_F(FakeLender, that_asks_and_reads_no_answer_is_cut_off) {
  is_requested();
  const std::vector<std::byte> question = link::encode_control(link::Attach{1, 99, 0, 0});
  constexpr std::uint64_t kFar = 100'000;
  std::uint64_t asked = 0;
  pollfd room{peer->channel.fd(), POLLOUT, 0};
  while (asked < kFar && ::poll(&room, 1, 500) == 1 &&
         ::send(peer->channel.fd(), question.data(), question.size(), MSG_DONTWAIT | MSG_NOSIGNAL) >
             0)
    ++asked;
  EXPECT_LT(asked, kFar) << "all of their answers wait in our memory";
  EXPECT_EQ(result(), Code::kClosed);
}

// Who hung up, and lives, may go on writing: nobody gets that of others.
TEST_F(FakeLender, that_was_cut_off_and_lives_leaves_nothing_to_others) {
  is_requested();
  send_segment();
  lend(one_tensor(0, 64));
  EXPECT_EQ(result(), std::nullopt);
  peer->channel.send(link::Lent{99, 5, 0, 0, 0, {}});
  platform::Fd again;  // who is cut off is connected to once more
  EXPECT_TRUE(eventually([&] {
    (void)code_of([&] { (void)attach(handle_of_it(), {.timeout = 1ms}, honest); });
    again = platform::accept_from(listener.get());
    return static_cast<bool>(again);
  }));
  FakePeer asking(domain.connect(honest->id()).socket);
  asking.say_hello();
  EXPECT_EQ(asking.next(), ControlType::kHello);
  const bus::Tensor& tensor = sample->tensor();
  const bus::Shared on = share({.tensors = {{tensor.data(), tensor.layout()}}}, {}, honest);
  asking.channel.send(link::Attach{1, on.handle().number, on.handle().key, 0});
  while (asking.next() != ControlType::kLent) {
  }
  const std::uint64_t token = asking.received.as<link::Lent>().token;
  asking.channel.send(link::HandOver{2, self, 0, 0, 0, token});
  EXPECT_EQ(asking.next(), ControlType::kDenied);
  listener.reset();  // now it is dead
  asking.channel.send(link::HandOver{3, self, 0, 0, 0, token});
  EXPECT_EQ(asking.next(), ControlType::kHanded);
}

}  // namespace
}  // namespace tensorbus::bus
