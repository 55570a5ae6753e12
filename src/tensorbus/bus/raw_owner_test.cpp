// A borrower against owners that speak the control messages themselves, rightly and wrongly.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

#include "tensorbus/bus/domain.hpp"
#include "tensorbus/bus/raw_peer.hpp"
#include "tensorbus/bus/topic_name.hpp"
#include "tensorbus/link/link_segment.hpp"
#include "tensorbus/link/test_sockets.hpp"
#include "tensorbus/platform/memfd.hpp"
#include "tensorbus/tensor/descriptor.hpp"

namespace tensorbus::bus {
namespace {

using namespace tensorbus::testing;
using link::ControlType;
using link::testing::fds_of;
using testing::RawPeer;

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
    descriptor.tensors.push_back(
        {.layout = Layout::contiguous(DType::kUInt64, {words}), .segment = 0, .offset = offset});
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

TEST_F(RawOwner, that_floods_with_garbage_delivers_nothing) {
  accept();
  link::Entry garbage;
  garbage.length = 1000;  // inline, which has room for 64
  std::atomic<bool> enough{false};
  std::thread flood([&] {
    for (std::uint64_t position = 0; !enough; ++position) ring.push(position, garbage);
  });
  EXPECT_TRUE(eventually([&] {
    EXPECT_FALSE(subscriber->receive(std::chrono::milliseconds(1)).has_value());
    return subscriber->stats().bad > 1000;
  }));
  enough = true;
  flood.join();
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
