// Peers that hand over, rightly and wrongly, what a dead participant has left them
// (docs/protocol.md, section 6).

#include "tensorbus/bus/raw_exchange.hpp"

namespace tensorbus::bus {
namespace {

using namespace testing;

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

TEST_F(RawHeir, that_changes_the_descriptor_meanwhile_changes_nothing) {
  write_pattern({reinterpret_cast<std::uint64_t*>(mapping.data()), 64}, kSeed);
  is_asked_for_the_segment();
  Descriptor changed = one_tensor(0, 64);
  changed.owners = {dead, dead};
  changed.tensors[0].owner = 2;
  const std::string bytes = bytes_of(changed);
  std::memcpy(mapping.data() + kPlace, bytes.data(), bytes.size());
  peer->channel.send(link::Handed{asked_for, 4096}, fds_of(platform::duplicate(segment.get())));
  EXPECT_EQ(result(), std::nullopt);
  EXPECT_EQ(seed_of(*sample), kSeed);
  is_given_back();
}

}  // namespace
}  // namespace tensorbus::bus
