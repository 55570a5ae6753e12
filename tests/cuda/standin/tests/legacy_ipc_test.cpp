#include "process.hpp"

namespace standin::test {
namespace {

constexpr std::size_t kBytes = 1000;

DevicePtr allocate(std::size_t bytes = kBytes) {
  DevicePtr address = 0;
  EXPECT_OK(cuMemAlloc_v2(&address, bytes));
  return address;
}
Result open(const IpcMemHandle& handle, DevicePtr* address) {
  return cuIpcOpenMemHandle_v2(address, handle, kIpcLazyPeerAccess);
}
// Any address in the allocation names all of it.
IpcMemHandle handle_of(DevicePtr address) {
  IpcMemHandle handle;
  EXPECT_OK(cuIpcGetMemHandle(&handle, address));
  return handle;
}
std::uint8_t* bytes_at(DevicePtr address) { return reinterpret_cast<std::uint8_t*>(address); }

TEST(Allocations, have_a_range_and_take_room_until_they_are_freed) {
  in_process({{"STANDIN_MEMORY", "1500"}}, [] {
    const Session session;
    const DevicePtr address = allocate();
    DevicePtr base = 0;
    std::size_t bytes = 0;
    EXPECT_OK(cuMemGetAddressRange_v2(&base, &bytes, address + 999));
    EXPECT_EQ(base, address);
    EXPECT_EQ(bytes, kBytes);
    EXPECT_NE(cuMemGetAddressRange_v2(&base, &bytes, address + 1000), Result::kSuccess);
    DevicePtr other = 0;
    EXPECT_RESULT(kOutOfMemory, cuMemAlloc_v2(&other, kBytes));
    EXPECT_EQ(standin_allocated_bytes(0), kBytes);
    EXPECT_RESULT(kInvalidValue, cuMemFree_v2(address + 8));
    EXPECT_OK(cuMemFree_v2(address));
    EXPECT_RESULT(kInvalidValue, cuMemFree_v2(address));
    EXPECT_EQ(standin_allocated_bytes(0), 0U);
  });
}

TEST(LegacyHandles, open_the_same_memory_once_and_are_counted) {
  in_two_processes(
      [](int wire) {
        const Session session(1);
        const DevicePtr address = allocate();
        bytes_at(address)[5] = 50;
        send(wire, handle_of(address + 100));
        EXPECT_EQ(receive<int>(wire), 1);
        EXPECT_EQ(bytes_at(address)[6], 60);
      },
      [](int wire) {
        const Session session;
        const auto handle = receive<IpcMemHandle>(wire);
        DevicePtr address = 0;
        DevicePtr again = 0;
        EXPECT_RESULT(kInvalidValue, cuIpcOpenMemHandle_v2(&address, handle, 0));
        EXPECT_OK(open(handle, &address));
        EXPECT_OK(open(handle, &again));
        EXPECT_EQ(address, again);
        EXPECT_EQ(standin_open_mappings(), 1U);
        EXPECT_OK(cuIpcCloseMemHandle(address));
        EXPECT_EQ(bytes_at(address)[5], 50);
        bytes_at(address)[6] = 60;
        IpcMemHandle onward;
        EXPECT_RESULT(kInvalidValue, cuIpcGetMemHandle(&onward, address));
        EXPECT_OK(cuIpcCloseMemHandle(address));
        EXPECT_EQ(standin_open_mappings(), 0U);
        EXPECT_RESULT(kInvalidValue, cuIpcCloseMemHandle(address));
        send(wire, 1);
      });
}

TEST(LegacyHandles, are_stale_once_the_memory_is_freed) {
  in_two_processes(
      [](int wire) {
        const Session session;
        const DevicePtr address = allocate();
        send(wire, handle_of(address));
        EXPECT_OK(cuMemFree_v2(address));
        allocate();  // its descriptor may have the same number
        send(wire, 1);
        EXPECT_EQ(receive<int>(wire), 1);
      },
      [](int wire) {
        const Session session;
        const auto handle = receive<IpcMemHandle>(wire);
        EXPECT_EQ(receive<int>(wire), 1);
        DevicePtr address = 0;
        EXPECT_RESULT(kInvalidValue, open(handle, &address));
        EXPECT_RESULT(kInvalidValue, open({}, &address));
        send(wire, 1);
      });
}

TEST(LegacyHandles, do_not_open_in_the_process_that_made_them) {
  in_process([] {
    const Session session;
    DevicePtr address = 0;
    EXPECT_RESULT(kInvalidContext, open(handle_of(allocate()), &address));
  });
}

TEST(LegacyHandles, are_not_made_of_chunks_or_where_they_are_missing) {
  in_process([] {
    const Session session;
    const MappedChunk chunk = new_chunk();
    IpcMemHandle handle;
    EXPECT_RESULT(kInvalidValue, cuIpcGetMemHandle(&handle, chunk.address));
    DevicePtr managed = 0;
    EXPECT_OK(cuMemAllocManaged(&managed, kBytes, 1));
    EXPECT_RESULT(kInvalidValue, cuIpcGetMemHandle(&handle, managed));
    EXPECT_OK(cuMemFree_v2(managed));
  });
  in_process({{"STANDIN_WITHOUT", "legacy_ipc"}}, [] {
    const Session session;
    IpcMemHandle handle;
    EXPECT_RESULT(kNotSupported, cuIpcGetMemHandle(&handle, allocate()));
  });
}

TEST(LegacyHandles, of_a_device_that_is_no_peer_do_not_open) {
  in_two_processes(
      [](int wire) {
        const Session session(1);
        send(wire, handle_of(allocate()));
        EXPECT_EQ(receive<int>(wire), 1);
      },
      [](int wire) {
        const Session session(0);
        DevicePtr address = 0;
        EXPECT_RESULT(kPeerAccessUnsupported, open(receive<IpcMemHandle>(wire), &address));
        send(wire, 1);
      },
      {{"STANDIN_WITHOUT", "peer"}});
}

}  // namespace
}  // namespace standin::test
