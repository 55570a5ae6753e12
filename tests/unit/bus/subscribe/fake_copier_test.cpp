// A borrower without CUDA against owners of device memory that answer rightly and wrongly when they
// are asked for copies.

#include <cstdlib>

#include "tensorbus/device/memory/device_memory.hpp"
#include "tensorbus/device/order/timeline.hpp"
#include "tensorbus/platform/files/memfd.hpp"
#include "tests/fakes/fake_owner.hpp"

namespace tensorbus::bus {
namespace {

using namespace testing;

constexpr memory::SegmentId kDevice = memory::SegmentId::device(0, 0);
constexpr std::uint32_t kHost = 3;
constexpr std::size_t kBytes = 4096;

class FakeCopier : public FakeOwner {
 protected:
  FakeCopier() {
    accept();
    peer->channel.send(link::TimelineMessage{},
                       fds_of(platform::duplicate(timeline.memfd().get())));
    peer->channel.send(link::DeviceSegment{kDevice, kBytes, Id::random()}, fds_of(segment()));
  }

  static platform::Fd segment() { return platform::create_sealed_memfd("test", kBytes); }
  void send_host_segment(std::uint32_t id) {
    const platform::Fd memfd = segment();
    const platform::Mapping mapping(memfd.get(), kBytes, platform::Mapping::Access::kReadWrite);
    write_pattern({reinterpret_cast<std::uint64_t*>(mapping.data()) + 4, 8}, 77);
    peer->channel.send(link::SegmentMessage{id, kBytes, 0},
                       fds_of(platform::reopen_read_only(memfd.get())));
  }

  // Pushes a sample of eight words on the device; returns what the borrower asks for.
  link::Stage asked_for(std::uint64_t offset) {
    tensor::Descriptor descriptor;
    descriptor.tensors.push_back({.layout = Layout::contiguous(DType::kUInt64, {8}),
                                  .kind = memory::BufferKind::kDevice,
                                  .segment = kDevice,
                                  .offset = offset,
                                  .generation = 9});
    link::Entry entry;
    entry.token = ++pushed;
    entry.sequence = pushed - 1;
    entry.length = static_cast<std::uint32_t>(descriptor.encoded_bytes());
    descriptor.encode(std::span(entry.inline_bytes).first(entry.length));
    ring.push(pushed - 1, entry);
    EXPECT_TRUE(eventually([&] {
      EXPECT_FALSE(subscriber->try_receive());
      pollfd ready{peer->channel.fd(), POLLIN, 0};
      return ::poll(&ready, 1, 0) == 1;
    }));
    EXPECT_EQ(peer->next(), ControlType::kStage);
    return peer->received.as<link::Stage>();
  }
  link::Staged copy_for(const link::Stage& asked, std::uint64_t offset = 32) {
    return {asked.request, ++token, {kHost, offset, 5}, 3};
  }
  bool becomes_bad() {
    return eventually([&] {
      EXPECT_FALSE(subscriber->try_receive());
      return subscriber->stats().bad == 1;
    });
  }

  bool becomes_gone() {
    return eventually([&] {
      EXPECT_FALSE(subscriber->try_receive());
      return subscriber->stats().gone == 1;
    });
  }

  device::Timeline timeline;
  std::uint64_t pushed = 0;
  std::uint64_t token = 0;
};

TEST_F(FakeCopier, is_asked_for_the_bytes_of_the_tensor_and_its_copy_is_what_is_received) {
  const link::Stage asked = asked_for(64);
  EXPECT_EQ(asked.block.segment, kDevice);
  EXPECT_EQ(asked.block.offset, 64U);
  EXPECT_EQ(asked.block.generation, 9U);
  EXPECT_EQ(asked.bytes, 64U);
  send_host_segment(kHost);
  peer->channel.send(copy_for(asked));
  {
    const auto sample = subscriber->receive(kLong);
    ASSERT_TRUE(sample);
    EXPECT_EQ(seed_of(sample->tensor().as<std::uint64_t>()), 77U);
    EXPECT_EQ(sample->tensor().published_on(), Device::cuda(3));
  }
  EXPECT_EQ(peer->next(), ControlType::kReturn);
  EXPECT_EQ(peer->received.as<link::Return>().token, token);
}

TEST_F(FakeCopier, is_not_asked_again_when_something_else_comes_meanwhile) {
  const link::Stage first = asked_for(64);
  send_host_segment(kHost);
  EXPECT_TRUE(eventually([&] { return subscriber->ready(); }));
  EXPECT_FALSE(subscriber->try_receive());
  peer->channel.send(copy_for(first));
  EXPECT_TRUE(subscriber->receive(kLong));
  EXPECT_EQ(peer->next(), ControlType::kReturn);
  EXPECT_EQ(asked_for(128).block.offset, 128U);
}

TEST_F(FakeCopier, that_denies_it_has_its_sample_counted_as_gone) {
  const link::Stage asked = asked_for(0);
  peer->channel.send(
      link::Denied{asked.request, static_cast<std::uint32_t>(Code::kOutOfMemory), "full"});
  EXPECT_TRUE(becomes_gone());
}

TEST_F(FakeCopier, whose_copy_lies_beyond_its_segment_has_sent_a_bad_sample) {
  const link::Stage asked = asked_for(0);
  send_host_segment(kHost);
  peer->channel.send(copy_for(asked, kBytes - 32));
  EXPECT_TRUE(becomes_bad());
}

TEST_F(FakeCopier, that_answers_twice_is_cut_off) {
  const link::Stage asked = asked_for(0);
  send_host_segment(kHost);
  peer->channel.send(copy_for(asked));
  EXPECT_TRUE(subscriber->receive(kLong));
  peer->channel.send(copy_for(asked));
  hangs_up();
}

TEST_F(FakeCopier, that_answers_with_something_else_is_cut_off) {
  const link::Stage asked = asked_for(0);
  peer->channel.send(link::Lent{.request = asked.request});
  EXPECT_TRUE(becomes_gone());
  hangs_up();
}

TEST_F(FakeCopier, that_hangs_up_instead_has_its_sample_counted_as_gone) {
  (void)asked_for(0);
  peer.reset();
  EXPECT_TRUE(becomes_gone());
}

}  // namespace
}  // namespace tensorbus::bus
