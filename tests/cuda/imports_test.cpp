// The two ends of memory that another allocator made, and what a peer may say of it.

#include <array>
#include <future>

#include "foreign.hpp"
#include "tensorbus/device/gpu_stream.hpp"
#include "tensorbus/device/memory/device_exports.hpp"
#include "tensorbus/device/memory/device_memory.hpp"
#include "tensorbus/device/memory/imported_memory.hpp"
#include "tensorbus/platform/files/memfd.hpp"
#include "tensorbus/platform/unix_socket.hpp"

namespace tensorbus::device {
namespace {

using namespace tensorbus::testing;
using standin::DevicePtr;
using standin::IpcMemHandle;

constexpr std::size_t kBytes = 4096;
const Id kOwner{{1}};

DevicePtr allocated(std::size_t bytes = kBytes) {
  DevicePtr address = 0;
  EXPECT_OK(standin::cuMemAlloc_v2(&address, bytes));
  return address;
}
void send_handle(int wire, DevicePtr address) {
  IpcMemHandle handle;
  EXPECT_OK(standin::cuIpcGetMemHandle(&handle, address));
  standin::test::send(wire, handle);
}
ExportPart part_of(const IpcMemHandle& handle, std::uint64_t bytes = kBytes) {
  const auto* const first = reinterpret_cast<const char*>(handle.bytes.data());
  return {.segment = memory::SegmentId::foreign(0),
          .kind = 1,
          .bytes = bytes,
          .device = device::Gpu::at(0).uuid(),
          .handle = std::string(first, handle.bytes.size())};
}
std::optional<Code> why_not_found(ExportPart part) {
  ImportedMemory borrowed;
  borrowed.add_export(kOwner, false, std::move(part));
  return code_of([&] { (void)borrowed.find(memory::SegmentId::foreign(0), memory::Grant::kRead); });
}

// What the other process has, and this one opens.
template <typename Body>
void with_handle(Body body) {
  in_two_processes(
      [](int wire) {
        const standin::test::Session session;
        send_handle(wire, allocated());
        wait_for(wire);
      },
      [&](int wire) {
        body(standin::test::receive<IpcMemHandle>(wire));
        tell(wire);
      });
}

TEST(DeviceImports, that_cannot_be_opened_say_why) {
  with_handle([](const IpcMemHandle& handle) {
    EXPECT_EQ(why_not_found(part_of(handle)), std::nullopt);
    EXPECT_EQ(why_not_found(part_of(handle, kBytes + 1)), Code::kProtocol);
    EXPECT_EQ(why_not_found(part_of(handle, std::size_t{1} << 43)), Code::kProtocol);
    EXPECT_EQ(why_not_found(part_of({})), Code::kUnsupported);
    ExportPart elsewhere = part_of(handle);
    elsewhere.device = {};
    EXPECT_EQ(why_not_found(std::move(elsewhere)), Code::kUnsupported);
    ExportPart chunk = part_of(handle);
    chunk.kind = 2;
    chunk.handle = {};
    chunk.chunk_bytes = kBytes;
    chunk.fd = platform::create_sealed_memfd("x", kBytes);
    EXPECT_EQ(why_not_found(std::move(chunk)), Code::kProtocol);
    EXPECT_TRUE(eventually([] { return standin_open_mappings() == 0; }));
  });
}

TEST(DeviceImports, that_claim_to_be_of_this_process_are_believed_from_it_alone) {
  in_process([] {
    const device::Gpu& device = device::Gpu::at(0);
    const DeviceImports::Own own({kOwner, memory::SegmentId::foreign(0)}, {device, 0x1000, kBytes});
    ImportedMemory from_here;
    from_here.add_export(kOwner, true, part_of({}));
    EXPECT_EQ(from_here.find(memory::SegmentId::foreign(0), memory::Grant::kRead)->address(),
              0x1000U);
    EXPECT_EQ(why_not_found(part_of({})), Code::kUnsupported);
  });
}

TEST(DeviceImports, that_are_retired_stay_until_the_streams_that_had_them_have_passed) {
  with_handle([](const IpcMemHandle& handle) {
    const TestStream stream;
    const device::GpuStream ours(device::Gpu::at(0), stream.get());
    const Timeline owners;
    ImportedMemory borrowed;
    borrowed.set_timeline(platform::duplicate(owners.memfd().get()), nullptr);
    borrowed.add_export(kOwner, false, part_of(handle));
    ImportedMemory::Ref leased = borrowed.find(memory::SegmentId::foreign(0), memory::Grant::kRead);
    stream.pause();
    borrowed.retire(memory::SegmentId::foreign(0));  // whatever its owner promised
    EXPECT_EQ(borrowed.find(memory::SegmentId::foreign(0), memory::Grant::kRead), nullptr);
    stream.launch([] {});
    (void)borrowed.timeline()->signal(ours);
    leased.reset();
    borrowed.retire(memory::SegmentId::foreign(0));  // it looks again at what was retired before
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_EQ(standin_open_mappings(), 1U);
    stream.resume();
    EXPECT_TRUE(eventually([] { return standin_open_mappings() == 0; }));
  });
}

// Closing it waits for the device, and it comes again meanwhile.
TEST(DeviceImports, that_are_being_closed_are_waited_for) {
  with_handle([](const IpcMemHandle& handle) {
    const TestStream busy;
    ImportedMemory borrowed;
    borrowed.add_export(kOwner, false, part_of(handle));
    (void)borrowed.find(memory::SegmentId::foreign(0), memory::Grant::kRead);
    busy.pause();
    busy.launch([] {});
    borrowed.retire(memory::SegmentId::foreign(0));
    EXPECT_TRUE(eventually([] { return standin_calls("cuIpcCloseMemHandle") == 1; }));
    ExportPart again = part_of(handle);
    again.segment = memory::SegmentId::foreign(1);
    borrowed.add_export(kOwner, false, std::move(again));
    auto found = std::async(std::launch::async, [&] {
      return borrowed.find(memory::SegmentId::foreign(1), memory::Grant::kRead) != nullptr;
    });
    EXPECT_EQ(found.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
    busy.resume();
    EXPECT_TRUE(found.get());
    EXPECT_EQ(standin_calls("cuIpcOpenMemHandle_v2"), 2U);
  });
}

// An owner that was short of something in the middle of it may retire it.
TEST(DeviceImports, of_which_not_all_chunks_came_leave_no_descriptors_behind) {
  in_process([] {
    ImportedMemory borrowed;
    const std::size_t before = open_descriptors();
    ExportPart part{.segment = memory::SegmentId::foreign(0),
                    .kind = 2,
                    .bytes = 2 * kBytes,
                    .chunks = 2,
                    .chunk_bytes = kBytes,
                    .fd = platform::create_sealed_memfd("test", kBytes)};
    borrowed.add_export(kOwner, false, std::move(part));
    EXPECT_EQ(open_descriptors(), before + 1);
    borrowed.retire(memory::SegmentId::foreign(0));
    EXPECT_EQ(open_descriptors(), before);
  });
}

TEST(DeviceImports, have_numbers_of_their_own) {
  in_process([] {
    ImportedMemory borrowed;
    const device::cu::Uuid& device = device::Gpu::at(0).uuid();
    EXPECT_EQ(code_of([&] {
                borrowed.add(memory::SegmentId::foreign(0), memory::Grant::kRead, platform::Fd(),
                             kBytes, device);
              }),
              Code::kProtocol);
    for (const memory::SegmentId number :
         {memory::SegmentId::host(0), memory::SegmentId::device(511, 0),
          memory::SegmentId::file(0)}) {
      ExportPart part = part_of({});
      part.segment = number;
      EXPECT_EQ(code_of([&] { borrowed.add_export(kOwner, false, std::move(part)); }),
                Code::kProtocol);
    }
    borrowed.add_export(kOwner, false, part_of({}));
    EXPECT_EQ(code_of([&] { borrowed.add_export(kOwner, false, part_of({})); }), Code::kProtocol);
  });
}

// A process that cannot use a device may be sent many of them.
TEST(DeviceImports, of_a_device_that_is_not_seen_leave_no_descriptors_but_an_arenas_behind) {
  in_process([] {
    EXPECT_GE(device::Gpu::all().size(), 1U);
    ImportedMemory borrowed;
    const auto memory = [] { return platform::create_sealed_memfd("test", kBytes); };
    const device::cu::Uuid unknown{{99}};
    const auto send_both = [&](std::uint32_t number) {
      borrowed.add(memory::SegmentId::device(0, number), memory::Grant::kRead, memory(), kBytes,
                   unknown);
      ExportPart part{.segment = memory::SegmentId::foreign(number),
                      .kind = 2,
                      .bytes = kBytes,
                      .device = unknown,
                      .chunk_bytes = kBytes,
                      .fd = memory()};
      borrowed.add_export(kOwner, false, std::move(part));
      EXPECT_EQ(code_of([&] {
                  (void)borrowed.find(memory::SegmentId::device(0, number), memory::Grant::kRead);
                }),
                Code::kUnsupported);
      EXPECT_EQ(code_of([&] {
                  (void)borrowed.find(memory::SegmentId::foreign(number), memory::Grant::kRead);
                }),
                Code::kUnsupported);
    };
    send_both(0);
    const std::size_t before = open_descriptors();
    send_both(1);
    EXPECT_EQ(open_descriptors(), before + 1);
    EXPECT_FALSE(borrowed.is_usable(memory::SegmentId::foreign(1), memory::Grant::kRead));
    EXPECT_EQ(borrowed.hand_on(memory::SegmentId::device(0, 1), memory::Grant::kRead).bytes,
              kBytes);
    EXPECT_EQ(code_of([&] {
                (void)borrowed.hand_on(memory::SegmentId::foreign(1), memory::Grant::kRead);
              }),
              Code::kClosed);
  });
}

struct PoolName {
  standin::MemPoolPtrExportData data;
};
ExportPart part_of(platform::Fd pool, const PoolName& name, memory::SegmentId segment) {
  const auto* const first = reinterpret_cast<const char*>(name.data.bytes.data());
  return {.segment = segment,
          .kind = 3,
          .bytes = kBytes,
          .device = device::Gpu::at(0).uuid(),
          .handle = std::string(first, name.data.bytes.size()),
          .fd = std::move(pool)};
}

void send_pool(int wire, standin::MemoryPool pool) {
  int fd = -1;
  EXPECT_OK(standin::cuMemPoolExportToShareableHandle(&fd, pool, standin::HandleType::kPosixFd, 0));
  const platform::Fd ours(fd);
  const std::array<std::byte, 1> byte{};
  EXPECT_EQ(platform::send_datagram(wire, byte, std::array{fd}), platform::Transfer::kDone);
}
platform::Fd receive_pool(int wire) {
  char byte = 0;
  EXPECT_EQ(::recv(wire, &byte, 1, MSG_PEEK), 1);  // blocks until it is there
  platform::Datagram datagram;
  EXPECT_EQ(platform::receive_datagram(wire, 1, 1, datagram), platform::Transfer::kDone);
  return std::move(datagram.fds.at(0));
}

// With a descriptor of another process's pool, and the name of an allocation in it.
template <typename Body>
void with_pool(Body body) {
  in_two_processes(
      [](int wire) {
        const standin::test::Session session;
        const standin::MemoryPool pool = new_pool();
        send_pool(wire, pool);
        DevicePtr address = 0;
        EXPECT_OK(standin::cuMemAllocFromPoolAsync(&address, kBytes, pool, nullptr));
        PoolName name;
        EXPECT_OK(standin::cuMemPoolExportPointer(&name.data, address));
        standin::test::send(wire, name);
        wait_for(wire);
        EXPECT_OK(standin::cuMemFree_v2(address));
      },
      [&](int wire) {
        const platform::Fd pool = receive_pool(wire);
        body([&] { return platform::duplicate(pool.get()); },
             standin::test::receive<PoolName>(wire));
        tell(wire);
      });
}

TEST(DeviceImports, of_a_pool_say_why_they_cannot_be_opened) {
  with_pool([](const auto& pool, const PoolName& name) {
    constexpr memory::SegmentId kSegment = memory::SegmentId::foreign(0);
    EXPECT_EQ(why_not_found(part_of(pool(), name, kSegment)), std::nullopt);
    EXPECT_EQ(why_not_found(part_of(pool(), {}, kSegment)), Code::kUnsupported);
    ExportPart larger = part_of(pool(), name, kSegment);
    larger.bytes += 1;
    EXPECT_EQ(why_not_found(std::move(larger)), Code::kProtocol);
    EXPECT_EQ(why_not_found(part_of(platform::create_sealed_memfd("x", kBytes), name, kSegment)),
              Code::kUnsupported);
    EXPECT_TRUE(eventually([] { return standin_imported_pools() == 0; }));
  });
}

// Two segments of one allocation, as of an owner that published it again: it is imported once, and
// what tells of the first may come while the second has it.
TEST(DeviceImports, of_a_pool_tell_when_they_are_closed) {
  with_pool([](const auto& pool, const PoolName& name) {
    ImportedMemory borrowed;
    std::vector<std::atomic<std::size_t>> open_when_told(3);
    for (auto& open : open_when_told) open = 99;
    borrowed.on_closed([&](memory::SegmentId segment) {
      return std::shared_ptr<const void>(
          &borrowed,
          [&told = open_when_told[segment.number - memory::SegmentId::foreign(0).number]](
              const void*) { told = standin_open_mappings(); });
    });
    const auto told = [&](std::size_t i, std::size_t open) {
      return eventually([&] { return open_when_told[i] == open; });
    };
    for (std::uint32_t i = 0; i < 3; ++i)
      borrowed.add_export(kOwner, false, part_of(pool(), name, memory::SegmentId::foreign(i)));
    ImportedMemory::Ref leased = borrowed.find(memory::SegmentId::foreign(0), memory::Grant::kRead);
    EXPECT_EQ(borrowed.find(memory::SegmentId::foreign(1), memory::Grant::kRead)->address(),
              leased->address());
    EXPECT_EQ(standin_calls("cuMemPoolImportPointer"), 1U);
    borrowed.retire(memory::SegmentId::foreign(2));
    EXPECT_TRUE(told(2, 1)) << "it was never opened";
    borrowed.retire(memory::SegmentId::foreign(1));
    EXPECT_TRUE(told(1, 1)) << "the first has it";
    borrowed.retire(memory::SegmentId::foreign(0));
    EXPECT_FALSE(borrowed.let_go_of_retired());
    EXPECT_EQ(open_when_told[0], 99U);
    leased.reset();
    EXPECT_TRUE(borrowed.let_go_of_retired());
    EXPECT_TRUE(told(0, 0));
  });
}

class CudaExportBooks : public ::testing::Test {
 protected:
  memory::BlockRef lend(DevicePtr address, std::size_t bytes = kBytes) {
    return exports->lend(device::Gpu::at(0), reinterpret_cast<std::byte*>(address), bytes, kept);
  }
  const std::shared_ptr<DeviceExports> exports = std::make_shared<DeviceExports>(kOwner);
  const std::shared_ptr<const int> kept = std::make_shared<const int>(1);
};

TEST_F(CudaExportBooks, name_tensors_of_one_allocation_by_one_segment) {
  in_process([&] {
    const standin::test::Session session;
    const DevicePtr address = allocated();
    const memory::BlockRef one = lend(address, 100);
    const memory::BlockRef same = lend(address, 100);
    memory::BlockRef other = lend(address + 200, 100);
    EXPECT_EQ(one->segment(), other->segment());
    EXPECT_EQ(other->offset(), 200U);
    EXPECT_NE(one->generation(), same->generation());
    EXPECT_EQ(kept.use_count(), 4);
    EXPECT_EQ(exports->find(one->segment(), 50, one->generation()), one);
    EXPECT_FALSE(exports->find(one->segment(), 250, one->generation()));
    EXPECT_FALSE(exports->find(one->segment().number + 1, 50, one->generation()));
    EXPECT_FALSE(exports->find(one->segment(), 50, 99));
    const std::uint64_t generation = other->generation();
    other = {};
    EXPECT_FALSE(exports->find(one->segment(), 200, generation));
    EXPECT_TRUE(eventually([&] { return kept.use_count() == 3; }));
  });
}

TEST_F(CudaExportBooks, forget_what_is_idle_and_what_was_freed) {
  in_process([&] {
    const standin::test::Session session;
    const auto now = DeviceExports::Clock::now();
    const DevicePtr address = allocated();
    const DevicePtr freed = allocated();
    const memory::SegmentId first = lend(address)->segment();
    const memory::SegmentId second = lend(freed)->segment();
    const memory::BlockRef in_use = lend(allocated());
    exports->retire_idle(now);
    EXPECT_TRUE(exports->take_retired().empty());
    EXPECT_OK(standin::cuMemFree_v2(freed));
    exports->retire_idle(now);
    EXPECT_EQ(exports->take_retired(), std::vector{second});
    EXPECT_EQ(lend(address)->segment(), first);
    exports->retire_idle(now + 2 * DeviceExports::kIdle);
    EXPECT_EQ(exports->take_retired(), std::vector{first});
    EXPECT_EQ(exports->stats().segments, 1U);
  });
}

TEST_F(CudaExportBooks, have_room_for_so_many_that_are_in_use) {
  in_process([&] {
    const standin::test::Session session;
    std::vector<memory::BlockRef> blocks;
    while (blocks.size() < DeviceExports::kMaxSegments) blocks.push_back(lend(allocated()));
    EXPECT_TRUE(blocks.back());
    const DevicePtr one_more = allocated();
    EXPECT_FALSE(lend(one_more));
    const memory::SegmentId idle = blocks[7]->segment();
    blocks[7] = {};
    EXPECT_TRUE(lend(one_more));
    EXPECT_EQ(exports->take_retired(), std::vector{idle});
  });
}

}  // namespace
}  // namespace tensorbus::device
