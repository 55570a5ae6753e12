// Memory of a device that nobody uses goes back to it.

#include "ends.hpp"
#include "tensorbus/device/memory/device_memory.hpp"

namespace tensorbus {
namespace {

using namespace testing;
using device::DeviceArena;

constexpr std::size_t kSegment = std::size_t{64} << 20;

TEST(DeviceArena, segments_that_were_idle_for_a_while_go_back_but_for_one) {
  in_process([] {
    device::DeviceMemory cuda({.segment_bytes = kSegment});
    int told = 0;
    cuda.on_idle([&] { ++told; });
    const device::Gpu& device = device::Gpu::at(0);
    memory::BlockRef kept = cuda.allocate(device, 4096);
    std::vector<memory::BlockRef> large;
    for (int i = 0; i < 3; ++i) large.push_back(cuda.allocate(device, kSegment));
    EXPECT_EQ(standin_allocated_bytes(0), 4 * kSegment);
    const memory::SegmentId first = large[0]->segment();
    large.pop_back();
    EXPECT_EQ(told, 1);
    large.clear();
    EXPECT_EQ(told, 1) << "once until it was looked after";
    cuda.retire_idle(DeviceArena::Clock::now());
    EXPECT_EQ(told, 2) << "there is something for later";
    EXPECT_EQ(cuda.stats().at(0).segments, 4U);

    memory::BlockRef again = cuda.allocate(device, kSegment);
    EXPECT_EQ(again->segment(), first);
    cuda.retire_idle(DeviceArena::Clock::now() + 2 * DeviceArena::kIdle);
    EXPECT_EQ(cuda.stats().at(0).segments, 2U);
    EXPECT_EQ(cuda.stats().at(0).reserved_bytes, 2 * kSegment);
    EXPECT_EQ(cuda.take_retired().size(), 2U);
    EXPECT_TRUE(cuda.take_retired().empty());
    EXPECT_TRUE(eventually([] { return standin_allocated_bytes(0) == 2 * kSegment; }));

    again = {};
    kept = {};
    cuda.retire_idle(DeviceArena::Clock::now() + 2 * DeviceArena::kIdle);
    EXPECT_EQ(cuda.stats().at(0).segments, 1U) << "for the next one";
    EXPECT_TRUE(cuda.allocate(device, kSegment));
  });
}

TEST(DeviceArena, a_segment_that_a_stream_still_writes_does_not_go_back) {
  const FreshDomain domain;
  in_process([&] {
    const bus::ParticipantRef us = domain.join();
    bus::Publisher publisher("frames", {}, us);
    const TestStream slow;
    const bus::Loan other = publisher.loan<std::uint8_t>({kSegment}, Device::cuda());
    slow.pause();
    publish_filled(publisher, slow, 1);  // to nobody
    const auto segments = [&] { return us->memory_use(Device::cuda()).segments; };
    EXPECT_EQ(segments(), 2U);
    slow.resume();
    EXPECT_TRUE(eventually([&] { return segments() == 1; })) << "after a few seconds";
  });
}

TEST(DeviceArena, a_reader_lets_go_of_what_was_given_back) {
  const FreshDomain domain;
  in_two_processes(
      [&](int wire) {
        Writer w(domain);
        w.wait_for_reader();
        const bus::Loan stays = loan_of(w.publisher);
        bus::Loan large = w.publisher.loan<std::uint64_t>({kSegment / 8}, Device::cuda());
        w.publisher.publish(std::move(large), w.stream.get());
        wait_for(wire);
        EXPECT_TRUE(eventually([&] {
          (void)w.publisher.stats();
          return w.us->memory_use(Device::cuda()).segments == 1;
        }));
        publish_filled(w.publisher, w.stream, 2);
        wait_for(wire);
      },
      [&](int wire) {
        Reader r(domain);
        (void)r.next();
        EXPECT_EQ(standin_open_mappings(), 1U);
        tell(wire);
        const bus::Sample sample = r.next();
        const Found found = read_on(r.stream, sample.tensor());
        r.stream.synchronize();
        EXPECT_EQ(*found, 2U);
        EXPECT_TRUE(eventually([] { return standin_open_mappings() == 1; }));
        tell(wire);
      });
}

TEST(DeviceArena, a_block_may_outlive_its_participant) {
  const FreshDomain domain;
  in_process([&] {
    std::optional<bus::ParticipantRef> us = domain.join();
    std::optional<bus::Publisher> publisher(std::in_place, "frames", PublisherOptions{}, *us);
    std::optional<bus::Loan> small = publisher->loan<std::uint8_t>({4096}, Device::cuda());
    std::optional<bus::Loan> large = publisher->loan<std::uint8_t>({kSegment}, Device::cuda());
    publisher.reset();
    us.reset();
    large.reset();
    small.reset();
  });
}

// What a stream of one device finds in memory of another.
standin::Result copied_to_another_device(const FreshDomain& domain) {
  const bus::ParticipantRef us = domain.join();
  bus::Publisher publisher("frames", {}, us);
  const bus::ParticipantRef other = domain.join();
  bus::Subscriber subscriber("frames", {}, other);
  EXPECT_EQ(publisher.wait_for_subscribers(1, kLong), Outcome::kDone);
  const TestStream writer(0);
  publish_filled(publisher, writer, 6);
  const auto sample = subscriber.receive(kLong);
  if (!sample) return standin::Result::kUnknown;
  const bus::Tensor& tensor = sample->tensor();
  const TestStream reader(1);
  std::vector<std::uint64_t> host(kWords);
  tensor.use_on(reader.get(), Device::cuda(1));
  const auto address = [](const void* pointer) {
    return static_cast<standin::DevicePtr>(reinterpret_cast<std::uintptr_t>(pointer));
  };
  const auto result = standin::cuMemcpyAsync(address(host.data()), address(tensor.data()),
                                             kWords * 8, reader.get());
  reader.synchronize();
  if (result == standin::Result::kSuccess) {
    EXPECT_EQ(seed_of(host), 6U);
  }
  return result;
}

TEST(DeviceArena, what_is_received_can_be_used_by_devices_that_reach_it) {
  const FreshDomain domain;
  in_process([&] { EXPECT_OK(copied_to_another_device(domain)); });
  in_process({{"STANDIN_WITHOUT", "peer"}},
             [&] { EXPECT_RESULT(kInvalidValue, copied_to_another_device(domain)); });
}

}  // namespace
}  // namespace tensorbus
