#pragma once

// For tests: an owner that sends the control messages itself, correct or wrong ones, and a borrower
// that subscribes to it.

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>

#include "tensorbus/bus/domain/domain.hpp"
#include "tensorbus/bus/domain/topic_name.hpp"
#include "tensorbus/link/ring/link_segment.hpp"
#include "tensorbus/tensor/descriptor.hpp"
#include "tests/fakes/fake_peer.hpp"
#include "tests/fakes/test_sockets.hpp"

namespace tensorbus::bus::testing {

using namespace tensorbus::testing;
using link::ControlType;
using link::testing::fds_of;

class FakeOwner : public ::testing::Test {
 protected:
  explicit FakeOwner(const SubscriberOptions& options = {}) {
    domain.add_marker(marker_name(escape_topic("topic"), self, 1));
    subscriber.emplace("topic", options, borrower);
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
    const auto asked = peer->received.as<link::Subscribe>();
    number = asked.link;
    asked_to_write = asked.writable;
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
    // The subscriber's links to other publishers still work.
    bus::Publisher publisher("topic", {}, borrower);
    ASSERT_EQ(publisher.wait_for_subscribers(1, kLong), Outcome::kDone);
    publish_patterns(publisher, 1, 1);
    EXPECT_EQ(next_seeds(*subscriber, 1), Seeds{1});
  }
  // Returns the entry of a sample with one tensor at `offset` of segment 0, inline.
  link::Entry entry_of(std::uint64_t offset, std::int64_t words) {
    tensor::Descriptor descriptor;
    descriptor.tensors.push_back(
        {.layout = Layout::contiguous(DType::kUInt64, {words}), .segment = 0, .offset = offset});
    link::Entry entry;
    entry.length = static_cast<std::uint32_t>(descriptor.encoded_bytes());
    descriptor.encode(std::span(entry.inline_bytes).first(entry.length));
    return entry;
  }

  const FreshDomain fresh;
  const bus::ParticipantRef borrower = fresh.join();
  const Domain domain{fresh.path()};
  const Id self = Id::random();
  const platform::Fd listener = domain.listen(self);
  std::optional<bus::Subscriber> subscriber;
  std::optional<FakePeer> peer;
  std::uint32_t number = 0;
  std::uint32_t asked_to_write = 0;
  std::optional<link::LinkSegment> memory;
  link::SampleRingWriter ring;
};

}  // namespace tensorbus::bus::testing
