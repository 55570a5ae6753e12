// Queues (docs/protocol.md, section 7) against clients that speak to their host themselves, rightly
// and wrongly.

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <optional>

#include "tensorbus/bus/domain.hpp"
#include "tensorbus/bus/queue.hpp"
#include "tensorbus/bus/raw_peer.hpp"
#include "tensorbus/link/sample_ring.hpp"
#include "tensorbus/platform/memfd.hpp"
#include "tensorbus/tensor/descriptor.hpp"

namespace tensorbus::bus {
namespace {

using namespace tensorbus::testing;
using link::ControlType;
using testing::RawPeer;

// What a lone tensor's descriptor is, somewhere in segment 0 of whoever sends it.
link::Lent tensor_at(std::uint64_t offset) {
  Descriptor descriptor;
  descriptor.tensors.resize(1);
  descriptor.tensors[0].layout = Layout::contiguous(DType::kUInt64, {2});
  descriptor.tensors[0].offset = offset;
  std::string bytes(descriptor.encoded_bytes(), '\0');
  descriptor.encode(std::as_writable_bytes(std::span(bytes)));
  return {0, 1, static_cast<std::uint32_t>(bytes.size()), link::kInlineSegment, 0, bytes, 0};
}

class RawClient : public ::testing::Test {
 protected:
  RawClient() {
    peer.say_hello();
    EXPECT_EQ(peer.next(), ControlType::kHello);
    const std::string address = queue.address();  // prefix:host:number:key
    const std::size_t key = address.rfind(':') + 1;
    const std::size_t number = address.rfind(':', key - 2) + 1;
    name = {std::stoull(address.substr(number), nullptr, 16),
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
  void others_go_on() {
    std::vector<std::uint64_t> words(8);
    write_pattern(words, 3);
    ASSERT_EQ(queue.put({.tensors = {TensorView::of(words.data(), {8})}}, kLong), Outcome::kDone);
    Sample sample;
    ASSERT_EQ(other.get(sample, kLong), Outcome::kDone);
    EXPECT_EQ(seed_of(sample), 3U);
  }

  const FreshDomain fresh;
  const Participant host = fresh.join();
  const Participant third = fresh.join();
  const Domain domain{fresh.path()};
  Queue queue{{.maxsize = 1}, host};
  Queue other = Queue::open(queue.address(), kLong, {}, third);
  RawPeer peer{domain.connect(host.id()).socket};
  link::QueueName name;
};

TEST_F(RawClient, that_has_no_key_or_no_queue_is_denied) {
  ++name.key;
  get(1);
  EXPECT_EQ(denied(), Code::kInvalidArgument);
  peer.channel.send(link::QueueCall{2, name, static_cast<std::uint32_t>(link::QueueVerb::kOpen)});
  EXPECT_EQ(denied(), Code::kInvalidArgument) << "it has no name to be opened by";
  name.number = 99;
  get(3);
  EXPECT_EQ(denied(), Code::kClosed);
  others_go_on();
}

TEST_F(RawClient, that_asks_for_what_there_is_not_is_denied) {
  for (const std::uint32_t verb : {5U, 77U, 0xffffffffU}) {
    peer.channel.send(link::QueueCall{verb, name, verb});
    EXPECT_EQ(denied(), Code::kInvalidArgument);
  }
  peer.channel.send(
      link::QueueCall{9, name, static_cast<std::uint32_t>(link::QueueVerb::kTaskDone)});
  EXPECT_EQ(denied(), Code::kInvalidArgument);
  peer.channel.send(link::Cancel{12345});
  others_go_on();
}

TEST_F(RawClient, that_puts_what_is_not_there_is_denied) {
  peer.channel.send(link::Put{1, name, 0, tensor_at(0)});  // of a segment that it never sent
  EXPECT_EQ(denied(), Code::kProtocol);
  constexpr std::size_t kBytes = 4096;
  std::vector<platform::Fd> fds;
  fds.push_back(platform::create_sealed_memfd("x", kBytes));
  peer.channel.send(link::SegmentMessage{0, kBytes, 0}, std::move(fds));
  peer.channel.send(link::Put{2, name, 0, tensor_at(kBytes - 8)});  // beyond its end
  EXPECT_EQ(denied(), Code::kProtocol);
  link::Lent cut = tensor_at(0);
  cut.inline_bytes.resize(5);
  peer.channel.send(link::Put{3, name, 0, cut});
  EXPECT_EQ(denied(), Code::kProtocol);
  others_go_on();
}

TEST_F(RawClient, that_gives_back_what_it_never_had_takes_nothing_from_others) {
  std::vector<platform::Fd> fds;
  fds.push_back(platform::create_sealed_memfd("x", 4096));
  peer.channel.send(link::SegmentMessage{0, 4096, 0}, std::move(fds));
  for (std::uint32_t request = 1; request < 100; ++request) {
    link::Lent lent = tensor_at(0);
    lent.number = request % 3;
    peer.channel.send(link::Put{request, name, link::Put::kCameBack, lent});
    EXPECT_EQ(peer.next(), ControlType::kTold);
  }
  EXPECT_EQ(queue.stats().items, 99U);
  die();
  Sample sample;
  for (int i = 0; i < 99; ++i) (void)queue.get(sample, 0s);
  EXPECT_EQ(queue.stats().items, 0U);
  others_go_on();
}

TEST_F(RawClient, that_dies_while_it_waits_is_passed_over) {
  for (std::uint32_t request = 1; request <= 1000; ++request) get(request);
  die();
  others_go_on();
}

TEST_F(RawClient, that_waits_without_end_is_bounded) {
  constexpr std::uint32_t kMost = 65'536;
  std::uint32_t denials = 0;
  for (std::uint32_t request = 1; request <= kMost + 10; ++request) {
    get(request);
    peer.channel.flush();
    while (peer.channel.waiting() > 0) peer.channel.flush();
  }
  while (denials < 10 && peer.next() == ControlType::kDenied) ++denials;
  EXPECT_EQ(denials, 10U);
  die();
  others_go_on();
}

TEST_F(RawClient, that_tells_what_nobody_asked_is_cut_off) {
  peer.channel.send(link::Told{1, 0, 0, 0, 0});
  while (peer.next()) {
  }
  others_go_on();
}

TEST_F(RawClient, that_gets_the_same_request_twice_gets_an_item_for_each_and_hurts_itself_alone) {
  get(7);
  get(7);
  std::vector<std::uint64_t> words(8);
  for (int i = 0; i < 2; ++i)
    ASSERT_EQ(queue.put({.tensors = {TensorView::of(words.data(), {8})}}, kLong), Outcome::kDone);
  EXPECT_EQ(queue.stats().items, 0U);
  die();
  EXPECT_TRUE(eventually([&] { return host.arena().used_bytes == 0; }));
  EXPECT_EQ(queue.stats().lost, 2U);
  others_go_on();
}

}  // namespace
}  // namespace tensorbus::bus
