// The rings of a queue against clients that write to them themselves, rightly and wrongly.

#include <functional>
#include <utility>

#include "tensorbus/bus/queue/put_rings.hpp"
#include "tensorbus/link/ring/get_ring.hpp"
#include "tensorbus/link/ring/put_ring.hpp"
#include "tensorbus/link/wire/lease_messages.hpp"
#include "tensorbus/platform/files/memfd.hpp"
#include "tests/unit/bus/queue/fake_client.hpp"

namespace tensorbus::bus {
namespace {

using namespace tensorbus::testing;
using link::ControlType;
using testing::FakeClient;

constexpr std::size_t kItemBytes = 4096;

std::vector<std::byte> encoded(const tensor::Descriptor& descriptor) {
  std::vector<std::byte> bytes(descriptor.encoded_bytes());
  descriptor.encode(bytes);
  return bytes;
}

class FakeProducer : public FakeClient {
 protected:
  FakeProducer() {
    std::vector<platform::Fd> fds;
    fds.push_back(segment.take_descriptor());
    peer.channel.send(link::QueueRing{1, name}, std::move(fds));
    EXPECT_EQ(peer.next(), ControlType::kReply);
  }
  // One tensor of two words at an offset of segment 0, changed by `change`.
  static tensor::Descriptor tensor(const std::function<void(tensor::Descriptor&)>& change = {}) {
    tensor::Descriptor descriptor;
    descriptor.tensors.resize(1);
    descriptor.tensors[0].layout = Layout::contiguous(DType::kUInt64, {2});
    if (change) change(descriptor);
    return descriptor;
  }
  void send_segment() {
    platform::Fd memory = platform::create_sealed_memfd("x", kItemBytes);
    const std::uint64_t seed = 7;
    const std::uint64_t pattern[] = {seed, word_after(seed, 1)};
    ASSERT_EQ(::pwrite(memory.get(), pattern, sizeof pattern, 0),
              static_cast<ssize_t>(sizeof pattern));
    std::vector<platform::Fd> fds;
    fds.push_back(std::move(memory));
    peer.channel.send(link::SegmentMessage{0, kItemBytes, 0}, std::move(fds));
  }
  // Puts an entry, once there is room, and has the server look.
  void put_entry(std::span<const std::byte> bytes, std::uint64_t token) {
    ASSERT_TRUE(eventually([&] { return writer.room() != 0; }));
    writer.write(0, bytes, put_clock_ns(), token);
    ASSERT_EQ(writer.commit(1), 1U);
    peer.channel.send(link::QueueWake{name});
  }
  std::uint64_t returned() {
    if (peer.next() != ControlType::kReturn) return 0;
    return peer.received.as<link::Return>().token;
  }

  link::PutRingSegment segment;
  link::PutRingWriter writer{segment};
};

TEST_F(FakeProducer, that_lends_in_its_ring_is_given_back_its_lease_once) {
  send_segment();
  put_entry(encoded(tensor()), 5);
  EXPECT_EQ(take_from(queue), 7U);
  EXPECT_EQ(returned(), 5U);
  EXPECT_EQ(state(), (State{0, 1, 0})) << "and no RETURN before this answer";
}

TEST_F(FakeProducer, that_puts_what_cannot_be_has_lost_it_and_gets_its_lease_back) {
  put_entry(encoded(tensor()), 1);  // of a segment that it never sent
  EXPECT_EQ(returned(), 1U);
  send_segment();
  put_entry(encoded(tensor([](tensor::Descriptor& of) { of.tensors[0].offset = kItemBytes - 8; })),
            2);
  EXPECT_EQ(returned(), 2U) << "beyond its end";
  put_entry(encoded(tensor([](tensor::Descriptor& of) {
              of.tensors[0].kind = memory::BufferKind::kDevice;
              of.tensors[0].segment = memory::SegmentId(1U << 30);
            })),
            3);
  EXPECT_EQ(returned(), 3U) << "on a device";
  put_entry(encoded(tensor([&](tensor::Descriptor& of) {
              of.owners = {third->id()};
              of.tensors[0].owner = 1;
            })),
            4);
  EXPECT_EQ(returned(), 4U) << "of a third participant";
  put_entry(encoded(tensor([&](tensor::Descriptor& of) {
              of.owners = {server->id()};
              of.tensors[0].owner = 1;
              of.tensors[0].generation = 12345;
            })),
            5);
  EXPECT_EQ(returned(), 5U) << "of the server, which has no such block";
  std::vector<std::byte> garbage(40, std::byte{0xee});
  put_entry(garbage, 6);
  EXPECT_EQ(returned(), 6U);
  put_entry(encoded(tensor()), 0);  // without a lease
  EXPECT_EQ(state(), (State{0, 0, 7})) << "they count as lost";
  put_entry(encoded(tensor()), 7);
  EXPECT_EQ(take_from(queue), 7U);
  others_go_on();
}

class FakeGetter : public FakeClient {
 protected:
  FakeGetter() {
    peer.channel.send(link::JoinGetRing{1, name});
    EXPECT_EQ(peer.next(), ControlType::kGetRing);
    joined = peer.received.as<link::GetRing>();
    segment.emplace(peer.received.take_fd());
    reader.emplace(*segment, joined.taker);
  }
  // Acquires the next item. Returns the token of its lease, 0: there is none.
  std::uint64_t acquire() {
    std::uint64_t position = 0;
    const auto taken = reader->take([&](std::span<const std::byte>, std::uint64_t lease) {
      position = lease;
      return link::GetRingReader::Look::kReadable;
    });
    return taken && position != 0 ? joined.leases + position : 0;
  }
  bool has_memory() const { return server->memory_use().used_bytes != 0; }

  link::GetRing joined;
  std::optional<link::GetRingSegment> segment;
  std::optional<link::GetRingReader> reader;
};

TEST_F(FakeGetter, that_returns_a_lease_before_the_host_knows_of_it_has_returned_it) {
  put(3);
  const std::uint64_t token = acquire();
  ASSERT_NE(token, 0U);
  EXPECT_TRUE(has_memory());
  peer.channel.send(link::Return{token});
  EXPECT_TRUE(eventually([&] { return !has_memory(); }));
  EXPECT_EQ(state(), (State{0, 1, 0}));
}

TEST_F(FakeGetter, that_returns_what_it_never_claimed_changes_nothing) {
  put(3);
  for (const std::uint64_t token :
       {joined.leases, joined.leases + 1, joined.leases + 2, ~std::uint64_t{0}})
    peer.channel.send(link::Return{token});
  EXPECT_EQ(state(), (State{1, 1, 0}));
  EXPECT_EQ(take_from(other), 3U);
  EXPECT_EQ(acquire(), 0U);
  others_go_on();
}

TEST_F(FakeGetter, that_dies_with_a_lease_leaves_no_memory) {
  put(3);
  ASSERT_NE(acquire(), 0U);
  die();
  EXPECT_TRUE(eventually([&] { return !has_memory() && queue.stats().lost == 1; }));
  others_go_on();
}

TEST_F(FakeGetter, cannot_have_another_return_a_lease_that_is_in_use) {
  put(3);
  bus::Sample theirs;
  ASSERT_EQ(other.get(theirs, kLong), Outcome::kDone);
  put(4);
  for (link::GetRingSlot& slot : segment->slots()) slot.what.store(256 | 8);
  (void)take_from(other);
  EXPECT_EQ(seed_of(theirs), 3U);
  EXPECT_TRUE(has_memory());
}

}  // namespace
}  // namespace tensorbus::bus
