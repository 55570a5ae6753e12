// Peers that hand over, rightly and wrongly, what a dead participant has left them
// (docs/internals/protocol.md, section 6).

#include "tests/fakes/fake_session.hpp"
#include "tests/unit/platform/test_support.hpp"

namespace tensorbus::bus {
namespace {

using namespace testing;

// What it lends belongs to a participant that is dead: it is asked to hand it over.
class FakeAdopter : public FakeLender {
 protected:
  void is_asked_for_the_segment() {
    is_requested();
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

TEST_F(FakeAdopter, that_hands_over_what_was_left_is_believed) {
  write_pattern({reinterpret_cast<std::uint64_t*>(mapping.data()), 64}, kSeed);
  hands(4096, fds_of(platform::reopen_read_only(segment.get())));
  EXPECT_EQ(result(), std::nullopt);
  EXPECT_EQ(seed_of(*sample), kSeed);
}

TEST_F(FakeAdopter, that_hands_over_something_else_is_refused) {
  hands(4096, fds_of(link::testing::some_pipe()));
  EXPECT_EQ(result(), Code::kProtocol);
  is_given_back();
}

TEST_F(FakeAdopter, that_hands_over_what_can_be_cut_short_is_refused) {
  hands(4096, fds_of(link::testing::unsealed_memfd(4096)));
  EXPECT_EQ(result(), Code::kProtocol);
  is_given_back();
}

TEST_F(FakeAdopter, that_hands_over_another_size_is_refused) {
  hands(8192, fds_of(platform::duplicate(segment.get())));
  EXPECT_EQ(result(), Code::kProtocol);
  is_given_back();
}

TEST_F(FakeAdopter, that_hands_over_less_than_the_tensor_is_refused) {
  hands(256, fds_of(platform::create_sealed_memfd("x", 256)));
  EXPECT_EQ(result(), Code::kProtocol);
  is_given_back();
}

TEST_F(FakeAdopter, that_hands_over_nothing_is_cut_off) {
  hands(4096, {});
  is_cut_off();
  EXPECT_EQ(result(), Code::kClosed);
}

TEST_F(FakeAdopter, that_lends_what_was_to_be_handed_over_is_cut_off) {
  is_asked_for_the_segment();
  peer->channel.send(link::Lent{asked_for, 6, 0, 0, 0, {}});
  is_cut_off();
  EXPECT_EQ(result(), Code::kClosed);
}

TEST_F(FakeAdopter, that_dies_instead_is_not_waited_for) {
  is_asked_for_the_segment();
  listener.reset();
  peer.reset();
  EXPECT_EQ(result(), Code::kClosed);
}

TEST_F(FakeAdopter, that_changes_the_descriptor_meanwhile_changes_nothing) {
  write_pattern({reinterpret_cast<std::uint64_t*>(mapping.data()), 64}, kSeed);
  is_asked_for_the_segment();
  tensor::Descriptor changed = one_tensor(0, 64);
  changed.owners = {dead, dead};
  changed.tensors[0].owner = 2;
  const std::string bytes = bytes_of(changed);
  std::memcpy(mapping.data() + kPlace, bytes.data(), bytes.size());
  peer->channel.send(link::Handed{asked_for, 4096}, fds_of(platform::duplicate(segment.get())));
  EXPECT_EQ(result(), std::nullopt);
  EXPECT_EQ(seed_of(*sample), kSeed);
  is_given_back();
}

// Whoever connects may say that it is anybody.
class Impostor : public FakeAdopter {
 protected:
  static platform::Fd forged_segment() {
    platform::Fd memfd = platform::create_sealed_memfd("x", 4096);
    const platform::Mapping all(memfd.get(), 4096, platform::Mapping::Access::kReadWrite);
    write_pattern({reinterpret_cast<std::uint64_t*>(all.data()), 64}, kForged);
    return memfd;
  }
  void SetUp() override {
    write_pattern({reinterpret_cast<std::uint64_t*>(mapping.data()), 64}, kSeed);
    impostor.emplace(domain.connect(honest->id()).socket);
    impostor->say_hello(dead);
    ASSERT_EQ(impostor->next(), ControlType::kHello);
    impostor->channel.send(link::SegmentMessage{0, 4096, 0}, fds_of(forged_segment()));
    impostor->channel.send(link::Attach{1, 99, 99, 0});
    ASSERT_EQ(impostor->next(), ControlType::kDenied);  // so the segment was heard
  }
  void the_sender_is_asked_for_what_the_dead_one_left() {
    hands(4096, fds_of(platform::reopen_read_only(segment.get())));
    EXPECT_EQ(result(), std::nullopt);
    EXPECT_EQ(seed_of(*sample), kSeed);
  }

  static constexpr std::uint64_t kForged = 66;
  std::optional<FakePeer> impostor;
};

TEST_F(Impostor, that_is_here_leaves_nothing_in_the_name_of_another) {
  the_sender_is_asked_for_what_the_dead_one_left();
}

TEST_F(Impostor, that_has_left_leaves_nothing_in_the_name_of_another) {
  const std::size_t before = test::open_descriptors();
  impostor.reset();
  EXPECT_TRUE(eventually([&] { return test::open_descriptors() < before - 1; }));
  the_sender_is_asked_for_what_the_dead_one_left();
}

// It is the word of one process, and bad only for what that one sends.
TEST_F(Impostor, that_hands_over_what_is_not_the_dead_ones_deceives_about_its_own_samples_alone) {
  hands(4096, fds_of(forged_segment()));
  EXPECT_EQ(result(), std::nullopt);
  EXPECT_EQ(seed_of(*sample), kForged);
  const bus::Sample of_liar = *std::move(sample);
  peer.reset();
  self = Id::random();
  listener = domain.listen(self);
  the_sender_is_asked_for_what_the_dead_one_left();
  EXPECT_EQ(seed_of(of_liar), kForged);
}

TEST_F(FakeAdopter, that_has_handed_over_once_is_not_asked_again) {
  write_pattern({reinterpret_cast<std::uint64_t*>(mapping.data()), 64}, kSeed);
  hands(4096, fds_of(platform::reopen_read_only(segment.get())));
  EXPECT_EQ(result(), std::nullopt);
  const bus::Sample first = *std::move(sample);
  thread = std::thread([this] {
    code = code_of([&] { sample = attach(handle_of_it(), {.timeout = kLong}, honest); });
  });
  while (peer->next() != ControlType::kAttach) {
  }
  request = peer->received.as<link::Attach>().request;
  lend_of(dead);
  EXPECT_EQ(result(), std::nullopt);
  EXPECT_EQ(seed_of(*sample), kSeed);
}

}  // namespace
}  // namespace tensorbus::bus
