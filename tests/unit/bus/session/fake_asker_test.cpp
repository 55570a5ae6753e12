// Lending by message (docs/internals/protocol.md, section 6) to peers that ask for it rightly and
// wrongly.

#include <poll.h>
#include <sys/socket.h>

#include <limits>

#include "tensorbus/device/memory/device_memory.hpp"
#include "tests/fakes/fake_session.hpp"

namespace tensorbus::bus {
namespace {

using namespace testing;

// It asks, and answers what nobody asked.
class FakeAsker : public FakeSession {
 protected:
  FakeAsker() {
    peer.say_hello();
    EXPECT_EQ(peer.next(), ControlType::kHello);
  }
  link::Attach attach_to(const bus::Handle& handle, std::uint32_t request = 1) const {
    return {request, handle.number, handle.key, 0};
  }
  // The lease of what is shared, and the names of its blocks.
  link::Lent attached() {
    peer.channel.send(attach_to(shared->handle()));
    EXPECT_EQ(peer.next(), ControlType::kSegment);
    EXPECT_EQ(peer.next(), ControlType::kLent);
    return peer.received.as<link::Lent>();
  }
  static link::BlockName block_of(const link::Lent& lent) {
    const auto bytes = std::as_bytes(std::span(lent.inline_bytes));
    const tensor::Descriptor descriptor = tensor::Descriptor::decode(bytes);
    const tensor::TensorEntry& entry = descriptor.tensors[0];
    return {entry.segment, entry.offset, entry.generation};
  }
  Code denied() {
    EXPECT_EQ(peer.next(), ControlType::kDenied);
    return link::code_of(peer.received.as<link::Denied>().code);
  }
  void hangs_up() {
    while (peer.next()) {
    }
    others_go_on();
    all_comes_back();
  }

  FakePeer peer{domain.connect(honest->id()).socket};
};

TEST_F(FakeAsker, that_attaches_before_it_greets_is_cut_off) {
  FakePeer rude(domain.connect(honest->id()).socket);
  rude.channel.send(attach_to(shared->handle()));
  while (const auto type = rude.next()) EXPECT_EQ(type, ControlType::kRefused);
  others_go_on();
}

TEST_F(FakeAsker, that_takes_a_lease_returns_it_by_its_end) {
  EXPECT_NE(attached().token, 0U);
  shared->close();
  EXPECT_GT(honest->memory_use().used_bytes, 0U);
  peer.channel.send(link::Return{0});
  ::shutdown(peer.channel.fd(), SHUT_RDWR);
  all_comes_back();
}

TEST_F(FakeAsker, that_returns_twice_or_what_was_never_lent_returns_nothing_of_others) {
  const bus::Sample held = attach(shared->handle(), {}, other);
  const link::Lent lent = attached();
  for (const std::uint64_t token : {lent.token, lent.token, lent.token + 1, std::uint64_t{0},
                                    std::numeric_limits<std::uint64_t>::max()})
    peer.channel.send(link::Return{token});
  peer.channel.send(attach_to(shared->handle(), 2));
  EXPECT_EQ(peer.next(), ControlType::kLent);
  EXPECT_EQ(seed_of(held), kSeed);
}

TEST_F(FakeAsker, that_answers_with_lent_what_was_not_asked_is_cut_off) {
  peer.channel.send(link::Lent{1, 1, 0, 0, 0, {}});
  hangs_up();
}

TEST_F(FakeAsker, that_answers_with_denied_what_was_not_asked_is_cut_off) {
  peer.channel.send(link::Denied{1, 0, "no"});
  hangs_up();
}

TEST_F(FakeAsker, that_answers_with_handed_what_was_not_asked_is_cut_off) {
  peer.channel.send(link::Handed{1, 4096}, fds_of(platform::create_sealed_memfd("x", 4096)));
  hangs_up();
}

TEST_F(FakeAsker, that_attaches_neither_to_read_nor_to_write_is_cut_off) {
  link::Attach wrong = attach_to(shared->handle());
  wrong.writable = 2;
  peer.channel.send(wrong);
  hangs_up();
}

TEST_F(FakeAsker, that_claims_what_is_not_there_is_denied) {
  const link::BlockName right = block_of(attached());
  constexpr std::uint64_t kFar = std::numeric_limits<std::uint64_t>::max();
  const link::BlockName wrong[] = {{right.segment, right.offset, 0},
                                   {right.segment, right.offset, right.generation + 1},
                                   {right.segment, right.offset, kFar},
                                   {right.segment, kFar, right.generation},
                                   {right.segment.number + 1, right.offset, right.generation},
                                   {0xffffffff, kFar, kFar}};
  for (const link::BlockName& block : wrong) {
    peer.channel.send(link::Acquire{5, 0, {right, block}});
    EXPECT_EQ(denied(), Code::kClosed) << block.segment.number << " " << block.offset;
  }
  peer.channel.send(link::Acquire{6, 1, {right}});
  EXPECT_EQ(denied(), Code::kPermission);
  peer.channel.send(link::Acquire{7, 0, {right}});
  EXPECT_EQ(peer.next(), ControlType::kLent);
  peer.channel.send(link::Acquire{8, 0, {}});
  EXPECT_EQ(peer.next(), ControlType::kLent) << "a lease on nothing";
}

TEST_F(FakeAsker, that_wants_copies_of_device_memory_that_is_not_there_is_denied) {
  const link::BlockName on_host = block_of(attached());
  peer.channel.send(link::Stage{5, on_host, 8});
  EXPECT_EQ(denied(), Code::kClosed);
  peer.channel.send(link::Stage{6, {memory::SegmentId::device(0, 0), 0, 1}, 8});
  EXPECT_EQ(denied(), Code::kClosed);
  peer.channel.send(link::Staged{1, 1, on_host, 0});
  hangs_up();
}

TEST_F(FakeAsker, that_claims_more_than_a_message_can_name_is_cut_off) {
  peer.channel.send(link::Acquire{5, 0, std::vector<link::BlockName>(250)});
  hangs_up();
}

TEST_F(FakeAsker, that_says_there_are_more_blocks_than_there_are_is_cut_off) {
  auto bytes = link::encode_control(link::Acquire{5, 0, {{1, 2, 3}}});
  bytes[sizeof(link::ControlHeader) + 8] = std::byte{2};
  ASSERT_GT(::send(peer.channel.fd(), bytes.data(), bytes.size(), 0), 0);
  hangs_up();
}

TEST_F(FakeAsker, that_wants_what_the_living_own_is_denied) {
  const bus::Shared of_other = share_pattern(other);
  const bus::Sample held = attach(of_other.handle(), {}, honest);
  for (const Id& owner : {other->id(), honest->id(), Id::random(), Id{}})
    for (const std::uint32_t segment : {0U, 1U, 0xffffffffU}) {
      peer.channel.send(link::HandOver{9, owner, segment, 0});
      EXPECT_EQ(denied(), Code::kClosed);
    }
}

// What a participant that has died left to `honest`, and `honest` handed on.
class FakeClaimer : public FakeAsker {
 protected:
  FakeClaimer() {
    std::optional<bus::ParticipantRef> third = fresh.join();
    owner = (*third)->id();
    std::optional<bus::Shared> of_third = share_pattern(*third);
    held = attach(of_third->handle(), {}, honest);
    const auto& tensor = held->tensor();
    handed_on = share({.tensors = {{tensor.data(), tensor.layout()}}}, {}, honest);
    // Before it dies: to take a lease its owner is not needed.
    peer.channel.send(attach_to(handed_on->handle(), 2));
    while (peer.next() != ControlType::kLent) {
    }
    token = peer.received.as<link::Lent>().token;
    of_third.reset();
    third.reset();
  }
  void asks(const Id& of, std::uint32_t segment, std::uint64_t under) {
    peer.channel.send(link::HandOver{9, of, segment, 0, 0, under});
  }

  Id owner;
  std::optional<bus::Sample> held;
  std::optional<bus::Shared> handed_on;
  std::uint64_t token = 0;
};

TEST_F(FakeClaimer, gets_the_memory_of_the_sample_that_it_names) {
  asks(owner, 0, token);
  ASSERT_EQ(peer.next(), ControlType::kHanded);
  const auto handed = peer.received.as<link::Handed>();
  const platform::Fd fd = peer.received.take_fd();
  const platform::Mapping all(fd.get(), handed.bytes, platform::Mapping::Access::kRead);
  const bus::Tensor& tensor = held->tensor();
  EXPECT_NE(::memmem(all.data(), all.size(), tensor.data(), 512), nullptr);
}

TEST_F(FakeClaimer, gets_nothing_for_a_sample_that_does_not_lie_there) {
  asks(owner, 0, 0);
  EXPECT_EQ(denied(), Code::kClosed);
  asks(owner, 0, token + 1);
  EXPECT_EQ(denied(), Code::kClosed);
  asks(owner, 1, token);
  EXPECT_EQ(denied(), Code::kClosed);
  asks(Id::random(), 0, token);
  EXPECT_EQ(denied(), Code::kClosed);
  peer.channel.send(attach_to(shared->handle(), 3));
  while (peer.next() != ControlType::kLent) {
  }
  asks(owner, 0, peer.received.as<link::Lent>().token);
  EXPECT_EQ(denied(), Code::kClosed) << "of what is `honest`'s own";
}

TEST_F(FakeAsker, may_lend_too_but_passes_a_segment_once) {
  peer.channel.send(link::SegmentMessage{0, 4096, 0},
                    fds_of(platform::create_sealed_memfd("x", 4096)));
  peer.channel.send(link::Retired{0});
  peer.channel.send(link::SegmentMessage{1, 4096, 0},
                    fds_of(platform::create_sealed_memfd("x", 4096)));
  (void)attached();
  peer.channel.send(link::SegmentMessage{1, 4096, 0},
                    fds_of(platform::create_sealed_memfd("x", 4096)));
  hangs_up();
}

TEST_F(FakeAsker, that_attaches_and_attaches_and_reads_no_answer_is_heard_no_more) {
  const std::vector<std::byte> question = link::encode_control(attach_to(shared->handle()));
  constexpr std::uint64_t kFar = 100'000;
  std::uint64_t asked = 0;
  pollfd room{peer.channel.fd(), POLLOUT, 0};
  while (asked < kFar && ::poll(&room, 1, 500) == 1)
    asked += ::send(peer.channel.fd(), question.data(), question.size(), MSG_DONTWAIT) > 0 ? 1 : 0;
  EXPECT_LT(asked, kFar) << "all of their answers wait in the owner's memory";
  others_go_on();
  ::shutdown(peer.channel.fd(), SHUT_RDWR);
  all_comes_back();
}

}  // namespace
}  // namespace tensorbus::bus
