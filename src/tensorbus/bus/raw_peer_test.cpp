// A participant against peers that speak the control messages themselves, rightly and wrongly.

#include <gtest/gtest.h>
#include <poll.h>

#include "tensorbus/bus/domain.hpp"
#include "tensorbus/bus/test_support.hpp"
#include "tensorbus/bus/topic_name.hpp"
#include "tensorbus/link/link_segment.hpp"
#include "tensorbus/link/peer.hpp"
#include "tensorbus/link/test_sockets.hpp"
#include "tensorbus/platform/memfd.hpp"
#include "tensorbus/tensor/descriptor.hpp"

namespace tensorbus::bus {
namespace {

using namespace tensorbus::testing;
using link::Channel;
using link::ControlType;
using link::testing::fds_of;

// One end of a connection in the hands of the test.
class RawPeer {
 public:
  explicit RawPeer(platform::Fd socket) : channel(std::move(socket), [](bool) {}) {}

  void say_hello(const Id& as = Id::random()) { link::send_hello(channel, as, page); }
  // The next message; nothing if the other side has hung up instead.
  std::optional<ControlType> next() {
    pollfd ready{channel.fd(), POLLIN, 0};
    const auto limit = std::chrono::milliseconds(kLong);
    if (::poll(&ready, 1, static_cast<int>(limit.count())) != 1) return std::nullopt;
    if (channel.receive(received) != Channel::State::kMessage) return std::nullopt;
    return received.header.type;
  }

  link::WakePage page;
  Channel channel;
  Channel::Received received;
};

class RawBorrower : public ::testing::Test {
 protected:
  RawBorrower() { peer.say_hello(); }

  link::Subscribe subscribe(std::uint32_t number) const {
    return {.link = number, .publisher = 1, .depth = 2, .max_held = 2, .topic = "topic"};
  }
  // Everybody else goes on.
  void others_go_on() {
    publish_patterns(publisher, 1, 1);
    EXPECT_EQ(next_seeds(subscriber, 1), Seeds{1});
  }
  void hangs_up() {
    while (const auto type = peer.next()) EXPECT_EQ(*type, ControlType::kHello);
    others_go_on();
  }
  void greeted() { ASSERT_EQ(peer.next(), ControlType::kHello); }

  const FreshDomain fresh;
  const Participant owner = fresh.join();
  const Participant borrower = fresh.join();
  Publisher publisher{"topic", {}, owner};
  Subscriber subscriber{"topic", {}, borrower};
  const Outcome connected = publisher.wait_for_subscribers(1, kLong);
  const Domain domain{fresh.path()};
  RawPeer peer{domain.connect(owner.id()).socket};
};

TEST_F(RawBorrower, that_says_the_right_things_is_accepted) {
  greeted();
  peer.channel.send(subscribe(1));
  ASSERT_EQ(peer.next(), ControlType::kAccepted);
  EXPECT_EQ(peer.received.as<link::Accepted>().max_held, 2U);
  others_go_on();
}

TEST_F(RawBorrower, of_another_version_is_told_so) {
  RawPeer old(domain.connect(owner.id()).socket);
  std::vector<std::byte> bytes = link::encode_control(link::Hello{Id::random(), 1, 1, 0});
  bytes[6] = std::byte{2};
  ASSERT_GT(::send(old.channel.fd(), bytes.data(), bytes.size(), 0), 0);
  ASSERT_EQ(old.next(), ControlType::kRefused);
  const auto refused = old.received.as<link::Refused>();
  EXPECT_EQ(refused.link, 0U);
  EXPECT_EQ(refused.code, static_cast<std::uint32_t>(Code::kVersionMismatch));
  EXPECT_NE(refused.text.find("version 2"), std::string::npos);
  EXPECT_EQ(old.next(), std::nullopt);
  others_go_on();
}

TEST_F(RawBorrower, asking_for_what_there_is_not_is_refused_and_may_ask_again) {
  greeted();
  link::Subscribe wrong = subscribe(1);
  wrong.publisher = 77;
  peer.channel.send(wrong);
  EXPECT_EQ(peer.next(), ControlType::kRefused);
  wrong = subscribe(2);
  wrong.topic = "another";
  peer.channel.send(wrong);
  EXPECT_EQ(peer.next(), ControlType::kRefused);
  peer.channel.send(subscribe(3));
  EXPECT_EQ(peer.next(), ControlType::kAccepted);
}

// A subscriber may close while the refusal of its link is under way.
TEST_F(RawBorrower, giving_up_a_link_that_was_refused_keeps_the_connection) {
  greeted();
  link::Subscribe wrong = subscribe(1);
  wrong.publisher = 77;
  peer.channel.send(wrong);
  peer.channel.send(link::Unsubscribe{1});
  peer.channel.send(link::Done{1});
  EXPECT_EQ(peer.next(), ControlType::kRefused);
  peer.channel.send(subscribe(2));
  EXPECT_EQ(peer.next(), ControlType::kAccepted);
}

TEST_F(RawBorrower, using_a_link_number_twice_is_cut_off) {
  greeted();
  peer.channel.send(subscribe(1));
  ASSERT_EQ(peer.next(), ControlType::kAccepted);
  peer.channel.send(subscribe(1));
  hangs_up();
  EXPECT_TRUE(eventually([&] { return publisher.subscribers() == 1; }));
}

TEST_F(RawBorrower, with_a_wake_slot_beyond_its_page_is_cut_off) {
  link::Subscribe wrong = subscribe(1);
  wrong.wake_slot = link::kWakeSlots;
  peer.channel.send(wrong);
  hangs_up();
}

TEST_F(RawBorrower, with_a_pipe_for_an_event_is_cut_off) {
  peer.channel.send(subscribe(1), fds_of(link::testing::some_pipe()));
  hangs_up();
}

TEST_F(RawBorrower, with_two_events_is_cut_off) {
  peer.channel.send(subscribe(1), fds_of(platform::make_event(), platform::make_event()));
  hangs_up();
}

TEST_F(RawBorrower, saying_hello_twice_is_cut_off) {
  peer.say_hello();
  hangs_up();
}

TEST_F(RawBorrower, speaking_as_an_owner_is_cut_off) {
  peer.channel.send(link::Ended{1});
  hangs_up();
}

TEST_F(RawBorrower, talking_nonsense_is_cut_off) {
  ASSERT_GT(::send(peer.channel.fd(), "nonsense", 8, 0), 0);
  hangs_up();
}

TEST_F(RawBorrower, that_never_greets_costs_nothing) {
  const RawPeer silent(domain.connect(owner.id()).socket);
  others_go_on();
}

TEST_F(RawBorrower, asking_for_much_gets_what_is_possible) {
  greeted();
  link::Subscribe greedy = subscribe(1);
  greedy.depth = 0xffffffff;
  greedy.max_held = 0xffffffff;
  peer.channel.send(greedy);
  const auto answer = peer.next();
  ASSERT_TRUE(answer);
  if (answer == ControlType::kAccepted) {
    EXPECT_LE(peer.received.as<link::Accepted>().slots, link::kMaxDepth);
  }
  others_go_on();
}

TEST_F(RawBorrower, that_writes_all_over_its_link_hurts_itself_alone) {
  greeted();
  peer.channel.send(subscribe(1));
  ASSERT_EQ(peer.next(), ControlType::kAccepted);
  const auto accepted = peer.received.as<link::Accepted>();
  link::LinkSegment memory(peer.received.take_fd(), {accepted.slots, accepted.returns});
  std::uint64_t word = 1;
  const auto garbage = [&] { return word = word * 6364136223846793005ULL + 1442695040888963407ULL; };
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    publish_patterns(publisher, seed, 1);
    EXPECT_EQ(next_seeds(subscriber, 1), Seeds{seed});
    // First the leases of entries that were never popped, then anything.
    for (std::size_t i = 0; i < memory.slots().size(); ++i)
      memory.returns()[i] = memory.slots()[i].words[2].load();
    *memory.return_tail() = seed < 250 ? seed : garbage();
    if (seed % 3 == 0) memory.slots()[seed % memory.slots().size()].state = garbage() >> seed % 64;
  }
  peer.channel.send(link::Done{1});
  EXPECT_TRUE(eventually([&] { return publisher.subscribers() == 1; }));
  EXPECT_TRUE(eventually([&] { return used_bytes(owner, {&publisher}) == 0; }));
}

// The other way round: the test is the owner.
class RawOwner : public ::testing::Test {
 protected:
  RawOwner() {
    domain.add_marker(marker_name(escape_topic("topic"), self, 1));
    subscriber.emplace("topic", SubscriberOptions{}, borrower);
    EXPECT_TRUE(eventually([&] {
      if (platform::Fd socket = platform::accept_from(listener.get()))
        peer.emplace(std::move(socket));
      return peer.has_value();
    }));
    EXPECT_EQ(peer->next(), ControlType::kHello);
  }

  void greet() {
    peer->say_hello(self);
    ASSERT_EQ(peer->next(), ControlType::kSubscribe);
    number = peer->received.as<link::Subscribe>().link;
  }
  void accept() {
    greet();
    memory.emplace(link::Geometry::for_link(4, 4));
    peer->channel.send(link::Accepted{.link = number, .slots = 4, .returns = 8, .max_held = 4},
                       fds_of(platform::duplicate(memory->memfd().get())));
    ASSERT_EQ(subscriber->wait_for_publishers(1, kLong), Outcome::kDone);
    ring = link::SampleRingWriter(memory->slots());
  }
  void hangs_up() {
    while (peer->next()) {
    }
    // What the subscriber has of others is not touched.
    Publisher publisher("topic", {}, borrower);
    ASSERT_EQ(publisher.wait_for_subscribers(1, kLong), Outcome::kDone);
    publish_patterns(publisher, 1, 1);
    EXPECT_EQ(next_seeds(*subscriber, 1), Seeds{1});
  }
  // A sample of one tensor at `offset` of segment 0, inline.
  link::Entry entry_of(std::uint64_t offset, std::int64_t words) {
    Descriptor descriptor;
    descriptor.tensors.push_back({.layout = Layout::contiguous(DType::kUInt64, {words}),
                                  .segment = 0,
                                  .offset = offset});
    link::Entry entry;
    entry.length = static_cast<std::uint32_t>(descriptor.encoded_bytes());
    descriptor.encode(std::span(entry.inline_bytes).first(entry.length));
    return entry;
  }

  const FreshDomain fresh;
  const Participant borrower = fresh.join();
  const Domain domain{fresh.path()};
  const Id self = Id::random();
  const platform::Fd listener = domain.listen(self);
  std::optional<Subscriber> subscriber;
  std::optional<RawPeer> peer;
  std::uint32_t number = 0;
  std::optional<link::LinkSegment> memory;
  link::SampleRingWriter ring;
};

TEST_F(RawOwner, of_another_name_than_its_socket_is_refused) {
  peer->say_hello(Id::random());
  hangs_up();
  EXPECT_NE(subscriber->stats().last_refusal.find("HELLO.id"), std::string::npos);
}

TEST_F(RawOwner, that_refuses_is_quoted) {
  peer->channel.send(link::Refused{0, 0, "version 2 only"});
  hangs_up();
  EXPECT_NE(subscriber->stats().last_refusal.find("version 2 only"), std::string::npos);
  EXPECT_EQ(subscriber->stats().refused, 1U);
}

TEST_F(RawOwner, with_rings_that_make_no_sense_is_cut_off) {
  greet();
  memory.emplace(link::Geometry::for_link(4, 4));
  peer->channel.send(link::Accepted{.link = number, .slots = 64, .returns = 8, .max_held = 4},
                     fds_of(platform::duplicate(memory->memfd().get())));
  hangs_up();
}

TEST_F(RawOwner, with_an_unsealed_segment_is_cut_off) {
  accept();
  peer->channel.send(link::SegmentMessage{0, 4096}, fds_of(link::testing::unsealed_memfd(4096)));
  hangs_up();
}

TEST_F(RawOwner, with_a_segment_of_another_size_is_cut_off) {
  accept();
  peer->channel.send(link::SegmentMessage{0, 8192},
                     fds_of(platform::create_sealed_memfd("x", 4096)));
  hangs_up();
}

TEST_F(RawOwner, whose_samples_make_no_sense_is_counted_and_the_good_ones_arrive) {
  accept();
  const platform::Fd segment = platform::create_sealed_memfd("x", 4096);
  const platform::Mapping mapping(segment.get(), 4096, platform::Mapping::Access::kReadWrite);
  write_pattern({reinterpret_cast<std::uint64_t*>(mapping.data()), 64}, 3);
  peer->channel.send(link::SegmentMessage{0, 4096},
                     fds_of(platform::reopen_read_only(segment.get())));
  ring.push(0, entry_of(4096 - 8, 2));  // beyond the segment
  ring.push(1, entry_of(~std::uint64_t{0} - 7, 2));
  link::Entry garbage = entry_of(0, 64);
  garbage.inline_bytes[0] = std::byte{99};
  ring.push(2, garbage);
  ring.push(3, entry_of(0, 64));
  EXPECT_EQ(next_seeds(*subscriber, 1), Seeds{3});
  EXPECT_EQ(subscriber->stats().bad, 3U);
  EXPECT_EQ(subscriber->stats().held, 0U);
}

TEST_F(RawOwner, may_send_a_segment_after_the_sample_that_lies_in_it) {
  accept();
  ring.push(0, entry_of(0, 64));
  EXPECT_FALSE(subscriber->receive(5ms));
  const platform::Fd segment = platform::create_sealed_memfd("x", 4096);
  const platform::Mapping mapping(segment.get(), 4096, platform::Mapping::Access::kReadWrite);
  write_pattern({reinterpret_cast<std::uint64_t*>(mapping.data()), 64}, 3);
  peer->channel.send(link::SegmentMessage{0, 4096},
                     fds_of(platform::reopen_read_only(segment.get())));
  EXPECT_EQ(next_seeds(*subscriber, 1), Seeds{3});
}

TEST_F(RawOwner, that_dies_before_it_sent_a_segment_leaves_a_bad_sample) {
  accept();
  ring.push(0, entry_of(0, 64));
  EXPECT_FALSE(subscriber->receive(5ms));
  peer.reset();
  EXPECT_TRUE(eventually([&] {
    (void)subscriber->try_receive();
    return subscriber->stats().bad == 1;
  }));
}

TEST_F(RawOwner, whose_ring_is_garbage_blocks_nobody) {
  accept();
  std::uint64_t word = 1;
  for (int round = 0; round < 2000; ++round) {
    for (link::Slot& slot : memory->slots()) {
      slot.state = (word = word * 6364136223846793005ULL + 1) >> word % 64;
      for (auto& part : slot.words) part = word = word * 6364136223846793005ULL + 1;
    }
    Sample sample;
    (void)subscriber->try_receive(sample);
  }
  EXPECT_EQ(subscriber->stats().received, 0U);
}

}  // namespace
}  // namespace tensorbus::bus
