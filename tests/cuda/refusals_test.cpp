// What cannot be had says why.

#include "ends.hpp"
#include "tensorbus/device/gpu.hpp"
#include "tensorbus/device/memory/device_memory.hpp"
#include "tensorbus/device/memory/imported_memory.hpp"

namespace tensorbus {
namespace {

using namespace testing;

// It would be read before it is written, and while its owner writes the next one there.
TEST(CudaRefusals, what_another_participant_received_is_not_copied) {
  const FreshDomain domain;
  in_two_processes(
      [&](int wire) {
        Writer w(domain);
        w.wait_for_reader();
        publish_filled(w.publisher, w.stream, 1);
        wait_for(wire);
      },
      [&](int wire) {
        Reader r(domain);
        const bus::ParticipantRef other = domain.join();
        bus::Publisher publisher("others", {}, other);
        const bus::Sample sample = r.next();
        TensorView view = TensorView::of(words_of(sample.tensor()).data(), {kWords});
        view.device = Device::cuda();
        view.stream = r.stream.get();
        EXPECT_EQ(code_of([&] { publisher.publish(view); }), Code::kUnsupported);
        tell(wire);
      });
}

TEST(CudaRefusals, a_segment_larger_than_its_device_is_the_owners_mistake) {
  in_process([] {
    const device::Gpu& device = device::Gpu::at(0);
    device::ImportedMemory borrowed;
    borrowed.add(memory::SegmentId::device(0, 0), memory::Grant::kRead,
                 device::GpuAllocation(device, device::gpu_granularity(device)).descriptor(),
                 std::size_t{1} << 60, device.uuid());
    EXPECT_EQ(code_of([&] {
                (void)borrowed.find(memory::SegmentId::device(0, 0), memory::Grant::kRead);
              }),
              Code::kProtocol);
    EXPECT_EQ(code_of([&] {
                borrowed.add(7, memory::Grant::kRead, platform::Fd(), 4096, device.uuid());
              }),
              Code::kProtocol);
  });
}

TEST(CudaRefusals, a_segment_keeps_its_descriptor_until_it_is_retired) {
  in_process([] {
    const device::Gpu& device = device::Gpu::at(0);
    const device::GpuAllocation allocation(device, device::gpu_granularity(device));
    device::ImportedMemory borrowed;
    const std::size_t before = open_descriptors();
    borrowed.add(memory::SegmentId::device(0, 0), memory::Grant::kRead, allocation.descriptor(),
                 allocation.bytes(), device.uuid());
    const auto mapping = borrowed.find(memory::SegmentId::device(0, 0), memory::Grant::kRead);
    EXPECT_EQ(mapping->size(), allocation.bytes());
    EXPECT_EQ(borrowed.find(memory::SegmentId::device(0, 0), memory::Grant::kRead), mapping);
    EXPECT_LE(open_descriptors(), before + 2);  // one is the mapping's, in the stand-in
    EXPECT_EQ(borrowed.hand_on(memory::SegmentId::device(0, 0), memory::Grant::kRead).bytes,
              allocation.bytes());
    borrowed.retire(memory::SegmentId::device(0, 0));
    EXPECT_LE(open_descriptors(), before + 1);
    EXPECT_EQ(code_of([&] {
                (void)borrowed.hand_on(memory::SegmentId::device(0, 0), memory::Grant::kRead);
              }),
              Code::kClosed);
  });
}

TEST(CudaRefusals, without_a_driver_a_loan_says_why) {
  const FreshDomain domain;
  in_process({{"TENSORBUS_CUDA_DRIVER", "off"}}, [&] {
    bus::Publisher publisher("frames", {}, domain.join());
    EXPECT_EQ(code_of([&] { (void)loan_of(publisher); }), Code::kUnsupported);
  });
  in_process({{"STANDIN_DEVICES", "0"}}, [&] {
    bus::Publisher publisher("frames", {}, domain.join());
    EXPECT_EQ(code_of([&] { (void)loan_of(publisher); }), Code::kUnsupported);
  });
}

TEST(CudaRefusals, a_child_of_a_process_that_used_cuda_is_told_to_be_spawned) {
  const FreshDomain domain;
  in_process([&] {
    bus::Publisher publisher("frames", {}, domain.join());
    (void)loan_of(publisher);
    in_process([&] { EXPECT_EQ(code_of([&] { (void)device::Gpu::at(0); }), Code::kForked); });
  });
}

TEST(CudaRefusals, more_than_the_budget_of_a_device_is_refused_by_its_name) {
  const FreshDomain domain;
  in_process([&] {
    bus::Publisher publisher("frames", {},
                             domain.join({.cuda_budget_bytes = std::size_t{8} << 20}));
    const bus::Loan most = publisher.loan<std::uint8_t>({7 << 20}, Device::cuda());
    try {
      (void)publisher.loan<std::uint8_t>({7 << 20}, Device::cuda());
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kOutOfMemory);
      EXPECT_NE(std::string(error.what()).find("TENSORBUS_CUDA_BUDGET"), std::string::npos);
    }
  });
}

}  // namespace
}  // namespace tensorbus
