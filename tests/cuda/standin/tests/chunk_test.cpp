#include <array>
#include <csignal>

#include "process.hpp"

namespace standin::test {
namespace {

Result create(std::size_t bytes, AllocationProp wanted = exportable_on(0)) {
  AllocationHandle handle = 0;
  return cuMemCreate(&handle, bytes, &wanted, 0);
}

TEST(Chunks, have_a_whole_number_of_granules_on_a_device) {
  in_process([] {
    EXPECT_OK(cuInit(0));
    EXPECT_RESULT(kInvalidValue, create(0));
    EXPECT_RESULT(kInvalidValue, create(kChunkBytes + 4096));
    EXPECT_RESULT(kInvalidDevice, create(kChunkBytes, exportable_on(2)));
    EXPECT_RESULT(kInvalidValue, create(kChunkBytes, {}));
    EXPECT_OK(create(kChunkBytes, exportable_on(1)));
    EXPECT_EQ(standin_allocated_bytes(0), 0U);
    EXPECT_EQ(standin_allocated_bytes(1), kChunkBytes);
  });
}

TEST(Chunks, take_no_more_than_the_device_has) {
  in_process({{"STANDIN_MEMORY", std::to_string(2 * kChunkBytes)}}, [] {
    EXPECT_OK(cuInit(0));
    const MappedChunk first = new_chunk();
    EXPECT_OK(create(kChunkBytes));
    EXPECT_RESULT(kOutOfMemory, create(kChunkBytes));
    EXPECT_OK(create(kChunkBytes, exportable_on(1)));
    unmap_chunk(first);
    EXPECT_OK(create(kChunkBytes));
  });
}

TEST(Chunks, live_until_the_last_handle_and_mapping) {
  in_process([] {
    EXPECT_OK(cuInit(0));
    const MappedChunk chunk = new_chunk();
    AllocationHandle retained = 0;
    EXPECT_OK(cuMemRetainAllocationHandle(&retained, chunk.data() + 5));
    EXPECT_EQ(retained, chunk.handle);
    EXPECT_OK(cuMemRelease(retained));
    EXPECT_OK(cuMemRelease(retained));
    EXPECT_RESULT(kInvalidValue, cuMemRelease(retained));
    chunk.data()[0] = 7;
    EXPECT_EQ(standin_allocated_bytes(0), kChunkBytes);
    EXPECT_OK(cuMemUnmap(chunk.address, chunk.bytes));
    EXPECT_EQ(standin_allocated_bytes(0), 0U);
    EXPECT_OK(cuMemAddressFree(chunk.address, chunk.bytes));
    EXPECT_RESULT(kInvalidValue, cuMemRetainAllocationHandle(&retained, chunk.data()));
  });
}

TEST(Mappings, are_of_reserved_addresses_where_nothing_is_yet) {
  in_process([] {
    EXPECT_OK(cuInit(0));
    const MappedChunk chunk = new_chunk();
    EXPECT_EQ(standin_open_mappings(), 1U);
    EXPECT_RESULT(kInvalidValue, cuMemMap(chunk.address, chunk.bytes, 0, chunk.handle, 0));
    EXPECT_RESULT(kInvalidValue, cuMemAddressFree(chunk.address, chunk.bytes));
    EXPECT_OK(cuMemUnmap(chunk.address, chunk.bytes));
    EXPECT_EQ(standin_open_mappings(), 0U);
    EXPECT_RESULT(kInvalidValue, cuMemUnmap(chunk.address, chunk.bytes));
    EXPECT_RESULT(kInvalidValue, cuMemMap(chunk.address + 4096, 4096, 0, chunk.handle, 0));
    EXPECT_RESULT(kInvalidValue, cuMemMap(chunk.address, 2 * chunk.bytes, 0, chunk.handle, 0));
    EXPECT_OK(cuMemMap(chunk.address, chunk.bytes, 0, chunk.handle, 0));
    unmap_chunk(chunk);
  });
}

TEST(Mappings, follow_each_other_and_go_together) {
  in_process([] {
    EXPECT_OK(cuInit(0));
    std::array<AllocationHandle, 2> handles{};
    const AllocationProp wanted = exportable_on(0);
    for (AllocationHandle& handle : handles)
      EXPECT_OK(cuMemCreate(&handle, kChunkBytes, &wanted, 0));
    DevicePtr address = 0;
    const AccessDesc access{{LocationType::kDevice, 0}, AccessFlags::kReadWrite};
    EXPECT_OK(cuMemAddressReserve(&address, 4 * kChunkBytes, 4 * kChunkBytes, 0, 0));
    EXPECT_EQ(address % (4 * kChunkBytes), 0U);
    EXPECT_OK(cuMemMap(address, kChunkBytes, 0, handles[0], 0));
    EXPECT_OK(cuMemMap(address + kChunkBytes, kChunkBytes, 0, handles[1], 0));
    EXPECT_RESULT(kInvalidValue, cuMemSetAccess(address, 3 * kChunkBytes, &access, 1));
    EXPECT_OK(cuMemSetAccess(address, 2 * kChunkBytes, &access, 1));
    EXPECT_RESULT(kInvalidValue, cuMemUnmap(address, 3 * kChunkBytes));
    EXPECT_OK(cuMemUnmap(address, 2 * kChunkBytes));
    EXPECT_OK(cuMemAddressFree(address, 4 * kChunkBytes));
  });
}

// The address sanitizer ends such a process in its own way.
TEST(Mappings, fault_where_access_was_not_granted) {
  const auto write_with = [](AccessFlags access) {
    return outcome_in_process({}, [&] {
      std::signal(SIGSEGV, SIG_DFL);
      EXPECT_OK(cuInit(0));
      AllocationHandle handle = 0;
      const AllocationProp wanted = exportable_on(0);
      EXPECT_OK(cuMemCreate(&handle, kChunkBytes, &wanted, 0));
      *static_cast<volatile std::uint8_t*>(map_chunk(handle, kChunkBytes, 0, access).data()) = 1;
    });
  };
  EXPECT_EQ(write_with(AccessFlags::kReadWrite), "exit 0");
  EXPECT_EQ(write_with(AccessFlags::kRead), "signal 11");
  EXPECT_EQ(write_with(AccessFlags::kNone), "signal 11");
}

TEST(SharedChunks, are_the_same_memory_and_outlive_their_owner) {
  in_two_processes(
      [](int wire) {
        EXPECT_OK(cuInit(0));
        const MappedChunk chunk = new_chunk(1);
        int fd = -1;
        EXPECT_OK(cuMemExportToShareableHandle(&fd, chunk.handle, HandleType::kPosixFd, 0));
        chunk.data()[100] = 42;
        send_fd(wire, fd);
        EXPECT_EQ(receive<int>(wire), 1);
        EXPECT_EQ(chunk.data()[101], 43);
      },
      [](int wire) {
        EXPECT_OK(cuInit(0));
        AllocationHandle handle = 0;
        const auto fd = static_cast<std::intptr_t>(receive_fd(wire).release());
        EXPECT_OK(cuMemImportFromShareableHandle(&handle, reinterpret_cast<void*>(fd),
                                                 HandleType::kPosixFd));
        const MappedChunk chunk = map_chunk(handle, kChunkBytes, 0);
        EXPECT_EQ(chunk.data()[100], 42);
        chunk.data()[101] = 43;
        send(wire, 1);
        char end = 0;
        EXPECT_EQ(::recv(wire, &end, 1, 0), 0);  // the owner is gone
        EXPECT_EQ(chunk.data()[101], 43);
        EXPECT_EQ(standin_allocated_bytes(0), 0U);
        unmap_chunk(chunk);
      },
      {{"CUDA_VISIBLE_DEVICES", "1"}});
}

TEST(SharedChunks, are_imported_from_nothing_else) {
  in_process([] {
    EXPECT_OK(cuInit(0));
    const tensorbus::platform::Fd page(RegisteredPage::new_memfd());
    AllocationHandle handle = 0;
    const auto import = [&](int fd) {
      return cuMemImportFromShareableHandle(
          &handle, reinterpret_cast<void*>(static_cast<std::intptr_t>(fd)), HandleType::kPosixFd);
    };
    EXPECT_RESULT(kInvalidValue, import(page.get()));
    EXPECT_RESULT(kInvalidValue, import(-1));
  });
}

TEST(SharedChunks, were_made_to_be_shared) {
  in_process([] {
    EXPECT_OK(cuInit(0));
    AllocationProp wanted = exportable_on(0);
    wanted.requested_handle_types = HandleType::kNone;
    AllocationHandle handle = 0;
    int fd = -1;
    EXPECT_OK(cuMemCreate(&handle, kChunkBytes, &wanted, 0));
    EXPECT_RESULT(kInvalidValue,
                  cuMemExportToShareableHandle(&fd, handle, HandleType::kPosixFd, 0));
  });
}

}  // namespace
}  // namespace standin::test
