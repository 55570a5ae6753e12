// Lending by message (docs/protocol.md, section 6) against peers that speak it themselves, rightly
// and wrongly.

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <limits>
#include <optional>
#include <thread>

#include "tensorbus/bus/domain.hpp"
#include "tensorbus/bus/raw_peer.hpp"
#include "tensorbus/bus/share.hpp"
#include "tensorbus/link/sample_ring.hpp"
#include "tensorbus/link/test_sockets.hpp"
#include "tensorbus/platform/memfd.hpp"
#include "tensorbus/tensor/descriptor.hpp"

namespace tensorbus::bus {
namespace {

using namespace tensorbus::testing;
using link::ControlType;
using link::testing::fds_of;
using testing::RawPeer;

constexpr std::uint64_t kSeed = 7;

class RawExchange : public ::testing::Test {
 protected:
  Shared share_pattern(const Participant& by, const ShareOptions& options = {}) {
    std::vector<std::uint64_t> words(64);
    write_pattern(words, kSeed);
    return share({.tensors = {TensorView::of(words.data(), {64})}}, options, by);
  }
  void others_go_on() {
    EXPECT_EQ(seed_of(attach(shared->handle(), {.timeout = kLong}, other)), kSeed);
  }
  void all_comes_back() {
    shared.reset();
    EXPECT_TRUE(eventually([&] { return honest.arena().used_bytes == 0; }));
  }

  const FreshDomain fresh;
  const Participant honest = fresh.join();
  const Participant other = fresh.join();
  const Domain domain{fresh.path()};
  std::optional<Shared> shared = share_pattern(honest);
};

// It asks, and answers what nobody asked.
class RawAsker : public RawExchange {
 protected:
  RawAsker() {
    peer.say_hello();
    EXPECT_EQ(peer.next(), ControlType::kHello);
  }
  link::Attach attach_to(const Handle& handle, std::uint32_t request = 1) const {
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
    const Descriptor descriptor = Descriptor::decode(bytes);
    const TensorEntry& entry = descriptor.tensors[0];
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

  RawPeer peer{domain.connect(honest.id()).socket};
};

TEST_F(RawAsker, that_attaches_before_it_greets_is_cut_off) {
  RawPeer rude(domain.connect(honest.id()).socket);
  rude.channel.send(attach_to(shared->handle()));
  while (const auto type = rude.next()) EXPECT_EQ(type, ControlType::kRefused);
  others_go_on();
}

TEST_F(RawAsker, that_takes_a_lease_returns_it_by_its_end) {
  EXPECT_NE(attached().token, 0U);
  shared->close();
  EXPECT_GT(honest.arena().used_bytes, 0U);
  peer.channel.send(link::Return{0});
  ::shutdown(peer.channel.fd(), SHUT_RDWR);
  all_comes_back();
}

TEST_F(RawAsker, that_returns_twice_or_what_was_never_lent_returns_nothing_of_others) {
  const Sample held = attach(shared->handle(), {}, other);
  const link::Lent lent = attached();
  for (const std::uint64_t token : {lent.token, lent.token, lent.token + 1, std::uint64_t{0},
                                    std::numeric_limits<std::uint64_t>::max()})
    peer.channel.send(link::Return{token});
  peer.channel.send(attach_to(shared->handle(), 2));
  EXPECT_EQ(peer.next(), ControlType::kLent);
  EXPECT_EQ(seed_of(held), kSeed);
}

TEST_F(RawAsker, that_answers_with_lent_what_was_not_asked_is_cut_off) {
  peer.channel.send(link::Lent{1, 1, 0, 0, 0, {}});
  hangs_up();
}

TEST_F(RawAsker, that_answers_with_denied_what_was_not_asked_is_cut_off) {
  peer.channel.send(link::Denied{1, 0, "no"});
  hangs_up();
}

TEST_F(RawAsker, that_answers_with_handed_what_was_not_asked_is_cut_off) {
  peer.channel.send(link::Handed{1, 4096}, fds_of(platform::create_sealed_memfd("x", 4096)));
  hangs_up();
}

TEST_F(RawAsker, that_attaches_neither_to_read_nor_to_write_is_cut_off) {
  link::Attach wrong = attach_to(shared->handle());
  wrong.writable = 2;
  peer.channel.send(wrong);
  hangs_up();
}

TEST_F(RawAsker, that_claims_what_is_not_there_is_denied) {
  const link::BlockName right = block_of(attached());
  constexpr std::uint64_t kFar = std::numeric_limits<std::uint64_t>::max();
  const link::BlockName wrong[] = {{right.segment, right.offset, 0},
                                   {right.segment, right.offset, right.generation + 1},
                                   {right.segment, right.offset, kFar},
                                   {right.segment, kFar, right.generation},
                                   {right.segment + 1, right.offset, right.generation},
                                   {0xffffffff, kFar, kFar}};
  for (const link::BlockName& block : wrong) {
    peer.channel.send(link::Claim{5, 0, {right, block}});
    EXPECT_EQ(denied(), Code::kClosed) << block.segment << " " << block.offset;
  }
  peer.channel.send(link::Claim{6, 1, {right}});
  EXPECT_EQ(denied(), Code::kPermission);
  peer.channel.send(link::Claim{7, 0, {right}});
  EXPECT_EQ(peer.next(), ControlType::kLent);
  peer.channel.send(link::Claim{8, 0, {}});
  EXPECT_EQ(peer.next(), ControlType::kLent) << "a lease on nothing";
}

TEST_F(RawAsker, that_claims_more_than_a_message_can_name_is_cut_off) {
  peer.channel.send(link::Claim{5, 0, std::vector<link::BlockName>(250)});
  hangs_up();
}

TEST_F(RawAsker, that_says_there_are_more_blocks_than_there_are_is_cut_off) {
  auto bytes = link::encode_control(link::Claim{5, 0, {{1, 2, 3}}});
  bytes[sizeof(link::ControlHeader) + 8] = std::byte{2};
  ASSERT_GT(::send(peer.channel.fd(), bytes.data(), bytes.size(), 0), 0);
  hangs_up();
}

TEST_F(RawAsker, that_wants_what_the_living_own_is_denied) {
  const Shared of_other = share_pattern(other);
  const Sample held = attach(of_other.handle(), {}, honest);
  for (const Id& owner : {other.id(), honest.id(), Id::random(), Id{}})
    for (const std::uint32_t segment : {0U, 1U, 0xffffffffU}) {
      peer.channel.send(link::HandOver{9, owner, segment, 0});
      EXPECT_EQ(denied(), Code::kClosed);
    }
}

TEST_F(RawAsker, may_lend_too_but_passes_a_segment_once) {
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

TEST_F(RawAsker, that_attaches_and_attaches_and_reads_no_answer_is_heard_no_more) {
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

// It lends, wrongly, to a participant that attaches.
class RawLender : public RawExchange {
 protected:
  ~RawLender() override {
    if (thread.joinable()) thread.join();
  }
  Handle handle_of_it() const {
    Handle handle;
    handle.owner = self;
    handle.number = 1;
    handle.tensors = 1;
    return handle;
  }
  // Has `honest` attach, and hears the request.
  void is_asked(std::chrono::nanoseconds timeout = kLong) {
    thread = std::thread([this, timeout] {
      code = code_of([&] { sample = attach(handle_of_it(), {.timeout = timeout}, honest); });
    });
    EXPECT_TRUE(eventually([&] {
      if (platform::Fd socket = platform::accept_from(listener.get()))
        peer.emplace(std::move(socket));
      return peer.has_value();
    }));
    EXPECT_EQ(peer->next(), ControlType::kHello);
    peer->say_hello(self);
    ASSERT_EQ(peer->next(), ControlType::kAttach);
    request = peer->received.as<link::Attach>().request;
  }
  std::optional<Code> result() {
    thread.join();
    others_go_on();
    return code;
  }
  void send_segment(std::uint32_t number = 0) {
    peer->channel.send(link::SegmentMessage{number, 4096, 0},
                       fds_of(platform::duplicate(segment.get())));
  }
  Descriptor one_tensor(std::uint64_t offset, std::int64_t words) const {
    Descriptor descriptor;
    descriptor.tensors.push_back({.layout = Layout::contiguous(DType::kUInt64, {words}),
                                  .segment = 0,
                                  .offset = offset,
                                  .generation = 1});
    return descriptor;
  }
  static std::string bytes_of(const Descriptor& descriptor) {
    std::string bytes(descriptor.encoded_bytes(), '\0');
    descriptor.encode(std::as_writable_bytes(std::span(bytes)));
    return bytes;
  }
  void lend(const Descriptor& descriptor, std::uint64_t token = 5) {
    const std::string bytes = bytes_of(descriptor);
    ASSERT_LE(bytes.size(), link::kInlineBytes);
    peer->channel.send(
        link::Lent{request, token, static_cast<std::uint32_t>(bytes.size()), 0xffffffff, 0, bytes});
  }
  // One whose tensor belongs to another; it is in the segment, where it can be changed.
  void lend_of(const Id& owner) {
    Descriptor descriptor = one_tensor(0, 64);
    descriptor.owners.push_back(owner);
    descriptor.tensors[0].owner = 1;
    const std::string bytes = bytes_of(descriptor);
    std::memcpy(mapping.data() + kPlace, bytes.data(), bytes.size());
    peer->channel.send(
        link::Lent{request, 5, static_cast<std::uint32_t>(bytes.size()), 0, kPlace, {}});
  }
  void is_given_back(std::uint64_t token = 5) {
    ASSERT_EQ(peer->next(), ControlType::kReturn);
    EXPECT_EQ(peer->received.as<link::Return>().token, token);
  }
  void is_cut_off() {
    while (peer->next()) {
    }
  }

  static constexpr std::size_t kPlace = 1024;
  const Id self = Id::random();
  platform::Fd listener = domain.listen(self);
  const platform::Fd segment = platform::create_sealed_memfd("x", 4096);
  const platform::Mapping mapping{segment.get(), 4096, platform::Mapping::Access::kReadWrite};
  std::optional<RawPeer> peer;
  std::uint32_t request = 0;
  std::optional<Code> code;
  std::optional<Sample> sample;
  std::thread thread;
};

TEST_F(RawLender, that_does_it_right_is_believed) {
  write_pattern({reinterpret_cast<std::uint64_t*>(mapping.data()), 64}, kSeed);
  is_asked();
  send_segment();
  lend(one_tensor(0, 64));
  EXPECT_EQ(result(), std::nullopt);
  EXPECT_EQ(seed_of(*sample), kSeed);
  sample.reset();
  is_given_back();
}

TEST_F(RawLender, of_a_tensor_beyond_its_segment_gets_the_lease_back) {
  is_asked();
  send_segment();
  lend(one_tensor(8, 512));
  EXPECT_EQ(result(), Code::kProtocol);
  is_given_back();
}

TEST_F(RawLender, of_what_lies_in_a_segment_it_never_sent_gets_the_lease_back) {
  is_asked();
  lend(one_tensor(0, 64));
  EXPECT_EQ(result(), Code::kProtocol);
  is_given_back();
}

TEST_F(RawLender, of_another_length_than_it_says_gets_the_lease_back) {
  is_asked();
  peer->channel.send(link::Lent{request, 5, 60, 0xffffffff, 0, "short"});
  EXPECT_EQ(result(), Code::kProtocol);
  is_given_back();
}

TEST_F(RawLender, of_a_descriptor_beyond_its_segment_gets_the_lease_back) {
  is_asked();
  send_segment();
  peer->channel.send(link::Lent{request, 5, 200, 0, 4000, {}});
  EXPECT_EQ(result(), Code::kProtocol);
  is_given_back();
}

TEST_F(RawLender, that_answers_twice_is_cut_off) {
  is_asked();
  send_segment();
  lend(one_tensor(0, 64));
  lend(one_tensor(0, 64), 6);
  EXPECT_EQ(result(), std::nullopt);
  EXPECT_TRUE(sample) << "what came first counts";
  sample.reset();  // it keeps the socket
  is_cut_off();
}

TEST_F(RawLender, that_hands_over_what_was_to_be_lent_is_cut_off) {
  is_asked();
  peer->channel.send(link::Handed{request, 4096}, fds_of(platform::duplicate(segment.get())));
  is_cut_off();
  EXPECT_EQ(result(), Code::kClosed);
}

TEST_F(RawLender, that_denies_is_quoted_in_plain_text) {
  is_asked();
  peer->channel.send(
      link::Denied{request, static_cast<std::uint32_t>(Code::kPermission), "no\xff\n"});
  EXPECT_EQ(result(), Code::kPermission);
}

TEST_F(RawLender, that_denies_for_no_reason_there_is_is_cut_off) {
  is_asked();
  peer->channel.send(link::Denied{request, 4711, "no"});
  is_cut_off();
  EXPECT_EQ(result(), Code::kClosed);
}

TEST_F(RawLender, that_dies_without_an_answer_is_not_waited_for) {
  is_asked();
  listener.reset();
  peer.reset();
  EXPECT_EQ(result(), Code::kClosed);
}

TEST_F(RawLender, that_answers_when_nobody_waits_any_more_gets_the_lease_back) {
  is_asked(1ms);
  EXPECT_EQ(result(), Code::kTimeout);
  send_segment();
  lend(one_tensor(0, 64));
  is_given_back();
}

TEST_F(RawLender, that_asks_and_reads_no_answer_is_cut_off) {
  is_asked();
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

// What it lends belongs to a participant that is dead: it is asked to hand it over.
class RawHeir : public RawLender {
 protected:
  void is_asked_for_the_segment() {
    is_asked();
    send_segment(0);
    lend_of(dead);
    ASSERT_EQ(peer->next(), ControlType::kHandOver);
    const auto asked = peer->received.as<link::HandOver>();
    EXPECT_EQ(asked.owner, dead);
    EXPECT_EQ(asked.segment, 0U);
    asked_for = asked.request;
  }
  void hands(std::uint64_t bytes, std::vector<platform::Fd> fds) {
    is_asked_for_the_segment();
    peer->channel.send(link::Handed{asked_for, bytes}, std::move(fds));
  }

  const Id dead = Id::random();
  std::uint32_t asked_for = 0;
};

TEST_F(RawHeir, that_hands_over_what_was_left_is_believed) {
  write_pattern({reinterpret_cast<std::uint64_t*>(mapping.data()), 64}, kSeed);
  hands(4096, fds_of(platform::reopen_read_only(segment.get())));
  EXPECT_EQ(result(), std::nullopt);
  EXPECT_EQ(seed_of(*sample), kSeed);
}

TEST_F(RawHeir, that_hands_over_something_else_is_refused) {
  hands(4096, fds_of(link::testing::some_pipe()));
  EXPECT_EQ(result(), Code::kProtocol);
  is_given_back();
}

TEST_F(RawHeir, that_hands_over_what_can_be_cut_short_is_refused) {
  hands(4096, fds_of(link::testing::unsealed_memfd(4096)));
  EXPECT_EQ(result(), Code::kProtocol);
  is_given_back();
}

TEST_F(RawHeir, that_hands_over_another_size_is_refused) {
  hands(8192, fds_of(platform::duplicate(segment.get())));
  EXPECT_EQ(result(), Code::kProtocol);
  is_given_back();
}

TEST_F(RawHeir, that_hands_over_less_than_the_tensor_is_refused) {
  hands(256, fds_of(platform::create_sealed_memfd("x", 256)));
  EXPECT_EQ(result(), Code::kProtocol);
  is_given_back();
}

TEST_F(RawHeir, that_hands_over_nothing_is_cut_off) {
  hands(4096, {});
  is_cut_off();
  EXPECT_EQ(result(), Code::kClosed);
}

TEST_F(RawHeir, that_lends_what_was_to_be_handed_over_is_cut_off) {
  is_asked_for_the_segment();
  peer->channel.send(link::Lent{asked_for, 6, 0, 0, 0, {}});
  is_cut_off();
  EXPECT_EQ(result(), Code::kClosed);
}

TEST_F(RawHeir, that_dies_instead_is_not_waited_for) {
  is_asked_for_the_segment();
  listener.reset();
  peer.reset();
  EXPECT_EQ(result(), Code::kClosed);
}

TEST_F(RawHeir, that_changes_the_owners_meanwhile_is_refused) {
  is_asked_for_the_segment();
  Descriptor changed = one_tensor(0, 64);
  changed.owners = {dead, dead};
  changed.tensors[0].owner = 2;
  const std::string bytes = bytes_of(changed);
  std::memcpy(mapping.data() + kPlace, bytes.data(), bytes.size());
  peer->channel.send(link::Handed{asked_for, 4096}, fds_of(platform::duplicate(segment.get())));
  EXPECT_EQ(result(), Code::kProtocol);
  is_given_back();
}

// Who hung up, and lives, may go on writing: nobody gets that of others.
TEST_F(RawLender, that_was_cut_off_and_lives_leaves_nothing_to_others) {
  is_asked();
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
  RawPeer asking(domain.connect(honest.id()).socket);
  asking.say_hello();
  EXPECT_EQ(asking.next(), ControlType::kHello);
  asking.channel.send(link::HandOver{1, self, 0, 0});
  EXPECT_EQ(asking.next(), ControlType::kDenied);
  listener.reset();  // now it is dead
  asking.channel.send(link::HandOver{2, self, 0, 0});
  EXPECT_EQ(asking.next(), ControlType::kHanded);
}

}  // namespace
}  // namespace tensorbus::bus
