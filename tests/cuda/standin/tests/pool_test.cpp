#include "process.hpp"

namespace standin::test {
namespace {

constexpr std::size_t kPoolBytes = 10000;

MemoryPool new_pool(HandleType type = HandleType::kPosixFd) {
  MemPoolProps wanted;
  wanted.type = AllocationType::kPinned;
  wanted.handle_types = type;
  wanted.location = {LocationType::kDevice, 0};
  MemoryPool pool = nullptr;
  EXPECT_OK(cuMemPoolCreate(&pool, &wanted));
  return pool;
}
DevicePtr allocate(MemoryPool pool) {
  DevicePtr address = 0;
  EXPECT_OK(cuMemAllocFromPoolAsync(&address, kPoolBytes, pool, nullptr));
  return address;
}
std::uint8_t& byte_at(DevicePtr address) { return *reinterpret_cast<std::uint8_t*>(address); }
void send_pool(int wire, MemoryPool pool) {
  int fd = -1;
  EXPECT_OK(cuMemPoolExportToShareableHandle(&fd, pool, HandleType::kPosixFd, 0));
  send_fd(wire, fd);
}
void send_name(int wire, DevicePtr address) {
  MemPoolPtrExportData name;
  EXPECT_OK(cuMemPoolExportPointer(&name, address));
  send(wire, name);
}
MemoryPool import_pool(const tensorbus::platform::Fd& fd) {
  MemoryPool pool = nullptr;
  void* const handle = reinterpret_cast<void*>(static_cast<std::intptr_t>(fd.get()));
  EXPECT_OK(cuMemPoolImportFromShareableHandle(&pool, handle, HandleType::kPosixFd, 0));
  return pool;
}

TEST(Pools, give_memory_in_the_order_of_a_stream) {
  in_process([] {
    const Session session;
    const MemoryPool pool = new_pool();
    const DevicePtr first = allocate(pool);
    const DevicePtr second = allocate(pool);
    EXPECT_EQ(standin_allocated_bytes(0), 2 * kPoolBytes);
    byte_at(first) = 1;
    byte_at(second) = 2;
    EXPECT_EQ(byte_at(first), 1);
    void* from = nullptr;
    PointerAttribute attribute = PointerAttribute::kMempoolHandle;
    void* data = &from;
    EXPECT_OK(cuPointerGetAttributes(1, &attribute, &data, second + 5));
    EXPECT_EQ(from, pool);
    const Stream stream = new_stream();
    standin_pause(stream);
    EXPECT_OK(cuMemFreeAsync(first, stream));
    EXPECT_EQ(standin_allocated_bytes(0), 2 * kPoolBytes);
    standin_resume(stream);
    EXPECT_OK(cuStreamSynchronize(stream));
    EXPECT_EQ(standin_allocated_bytes(0), kPoolBytes);
    EXPECT_OK(cuMemPoolDestroy(pool));
    EXPECT_OK(cuMemFree_v2(second));
    EXPECT_EQ(standin_allocated_bytes(0), 0U);
  });
}

TEST(Pools, are_shared_if_they_were_made_for_it) {
  in_process([] {
    const Session session;
    const MemoryPool own = new_pool(HandleType::kNone);
    int fd = -1;
    MemPoolPtrExportData name;
    EXPECT_RESULT(kInvalidValue,
                  cuMemPoolExportToShareableHandle(&fd, own, HandleType::kPosixFd, 0));
    EXPECT_RESULT(kInvalidValue, cuMemPoolExportPointer(&name, allocate(own)));
  });
  in_two_processes(
      [](int wire) {
        const Session session;
        const MemoryPool pool = new_pool();
        (void)allocate(pool);
        const DevicePtr address = allocate(pool);
        byte_at(address + 9) = 50;
        send_pool(wire, pool);
        send_name(wire, address);
        EXPECT_EQ(receive<int>(wire), 1);
        EXPECT_EQ(byte_at(address + 8), 60);
        EXPECT_OK(cuMemFree_v2(address));
        send(wire, 2);
      },
      [](int wire) {
        const Session session;
        const auto fd = receive_fd(wire);
        const MemoryPool pool = import_pool(fd);
        EXPECT_EQ(import_pool(fd), pool);
        auto name = receive<MemPoolPtrExportData>(wire);
        DevicePtr address = 0;
        EXPECT_RESULT(kInvalidValue, cuMemAllocFromPoolAsync(&address, kPoolBytes, pool, nullptr));
        EXPECT_OK(cuMemPoolImportPointer(&address, pool, &name));
        EXPECT_EQ(byte_at(address + 9), 50);
        byte_at(address + 8) = 60;
        EXPECT_OK(cuMemFree_v2(address));
        send(wire, 1);
        EXPECT_EQ(receive<int>(wire), 2);
        EXPECT_RESULT(kInvalidValue, cuMemPoolImportPointer(&address, pool, &name));
        EXPECT_OK(cuMemPoolDestroy(pool));
        EXPECT_EQ(standin_imported_pools(), 0U);
      });
}

// Where the documentation leaves the result undefined, the stand-in ends the process.
TEST(Pools, end_who_frees_what_another_process_has_imported) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  auto owner = start_process({}, [&] {
    const Session session;
    const MemoryPool pool = new_pool();
    const DevicePtr address = allocate(pool);
    send_pool(ends[0], pool);
    send_name(ends[0], address);
    EXPECT_EQ(receive<int>(ends[0]), 1);
    (void)cuMemFree_v2(address);
  });
  auto borrower = start_process({}, [&] {
    const Session session;
    const MemoryPool pool = import_pool(receive_fd(ends[1]));
    auto name = receive<MemPoolPtrExportData>(ends[1]);
    DevicePtr address = 0;
    EXPECT_OK(cuMemPoolImportPointer(&address, pool, &name));
    send(ends[1], 1);
    EXPECT_EQ(receive<int>(ends[1]), 2);
    (void)cuMemPoolImportPointer(&address, pool, &name);
  });
  EXPECT_EQ(owner.wait(), "signal 6");
  send(ends[0], 2);
  EXPECT_EQ(borrower.wait(), "signal 6") << "and who imports it twice";
  ::close(ends[0]);
  ::close(ends[1]);
}

}  // namespace
}  // namespace standin::test
