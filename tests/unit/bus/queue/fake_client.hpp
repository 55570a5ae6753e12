#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "tensorbus/bus/domain/domain.hpp"
#include "tensorbus/bus/queue.hpp"
#include "tensorbus/link/wire/queue_messages.hpp"
#include "tensorbus/tensor/descriptor.hpp"
#include "tests/fakes/fake_peer.hpp"
#include "tests/unit/bus/test_support.hpp"

namespace tensorbus::bus::testing {

using namespace tensorbus::testing;
using link::ControlType;

// What a lone tensor's descriptor is, somewhere in segment 0 of whoever sends it.
inline link::Lent tensor_at(std::uint64_t offset) {
  tensor::Descriptor descriptor;
  descriptor.tensors.resize(1);
  descriptor.tensors[0].layout = Layout::contiguous(DType::kUInt64, {2});
  descriptor.tensors[0].offset = offset;
  std::string bytes(descriptor.encoded_bytes(), '\0');
  descriptor.encode(std::as_writable_bytes(std::span(bytes)));
  return {0, 1, static_cast<std::uint32_t>(bytes.size()), memory::SegmentId::none(), 0, bytes, 0};
}

// A client of a queue that speaks to its server itself; the queue has room for one item.
class FakeClient : public ::testing::Test {
 protected:
  FakeClient() {
    peer.say_hello();
    EXPECT_EQ(peer.next(), ControlType::kHello);
    name = name_of(queue);
  }
  static link::QueueName name_of(const bus::Queue& queue) {
    const std::string address = queue.address();  // prefix:server:number:key
    const std::size_t key = address.rfind(':') + 1;
    const std::size_t number = address.rfind(':', key - 2) + 1;
    return {std::stoull(address.substr(number), nullptr, 16),
            std::stoull(address.substr(key), nullptr, 16)};
  }
  void get(std::uint32_t request, std::uint32_t flags = link::Get::kWait) {
    peer.channel.send(link::Get{request, name, flags});
  }
  Code denied() {
    auto type = peer.next();
    while (type == ControlType::kReturn) type = peer.next();  // of what came with it
    EXPECT_EQ(type, ControlType::kDenied);
    return link::code_of(peer.received.as<link::Denied>().code);
  }
  void die() { ::shutdown(peer.channel.fd(), SHUT_RDWR); }
  void finish(std::uint32_t request, std::uint64_t item) {
    peer.channel.send(link::QueueCall{
        request, name, static_cast<std::uint32_t>(link::QueueVerb::kTaskDone), item});
  }
  // The number of the item; nothing if there was no offer.
  std::optional<std::uint64_t> hear_offer() {
    auto type = peer.next();
    while (type == ControlType::kSegment) type = peer.next();
    if (type != ControlType::kLent) return std::nullopt;
    return peer.received.as<link::Lent>().number;
  }
  // Items, unfinished, lost, after all that the peer said.
  using State = std::array<std::uint64_t, 3>;
  State state() {
    peer.channel.send(
        link::QueueCall{99, name, static_cast<std::uint32_t>(link::QueueVerb::kState)});
    for (auto type = peer.next(); type; type = peer.next()) {
      if (type != ControlType::kReply) continue;
      const auto told = peer.received.as<link::Reply>();
      const auto state = link::QueueState::of(told.values);
      if (told.request == 99) return {state.items, state.unfinished, state.lost};
    }
    ADD_FAILURE() << "no answer";
    return {};
  }
  Message pattern(std::uint64_t seed) {
    write_pattern(words, seed);
    return {.tensors = {TensorView::of(words.data(), {8})}};
  }
  void put(std::uint64_t seed) { ASSERT_EQ(queue.put(pattern(seed), kLong), Outcome::kDone); }
  static std::uint64_t take_from(bus::Queue& from) {
    bus::Sample sample;
    return from.get(sample, kLong) == Outcome::kDone ? seed_of(sample).value_or(0) : 0;
  }
  void others_go_on() {
    put(3);
    EXPECT_EQ(take_from(other), 3U);
  }

  const FreshDomain fresh;
  const bus::ParticipantRef server = fresh.join();
  const bus::ParticipantRef third = fresh.join();
  const Domain domain{fresh.path()};
  bus::Queue queue{{.maxsize = 1}, server};
  bus::Queue other = bus::Queue::open(queue.address(), kLong, third);
  FakePeer peer{domain.connect(server->id()).socket};
  link::QueueName name;
  std::vector<std::uint64_t> words = std::vector<std::uint64_t>(8);
};

}  // namespace tensorbus::bus::testing
