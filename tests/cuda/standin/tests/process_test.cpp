#include "process.hpp"

#include <array>

#include "tensorbus/platform/unix_socket.hpp"

// Defines what process.hpp declares; no tests.
namespace standin::test {

using tensorbus::platform::Fd;

void send_fd(int wire, int fd) {
  const std::array<std::byte, 1> byte{};
  ASSERT_EQ(tensorbus::platform::send_datagram(wire, byte, std::array{fd}),
            tensorbus::platform::Transfer::kDone);
}

Fd receive_fd(int wire) {
  char byte = 0;
  EXPECT_EQ(::recv(wire, &byte, 1, MSG_PEEK), 1);  // blocks until it is there
  tensorbus::platform::Datagram datagram;
  EXPECT_EQ(tensorbus::platform::receive_datagram(wire, 1, 1, datagram),
            tensorbus::platform::Transfer::kDone);
  return datagram.fds.empty() ? Fd() : std::move(datagram.fds.front());
}

AllocationProp exportable_on(Device device) {
  AllocationProp wanted;
  wanted.type = AllocationType::kPinned;
  wanted.requested_handle_types = HandleType::kPosixFd;
  wanted.location = {LocationType::kDevice, device};
  return wanted;
}

MappedChunk map_chunk(AllocationHandle handle, std::size_t bytes, Device device,
                      AccessFlags access) {
  MappedChunk chunk{.handle = handle, .address = 0, .bytes = bytes};
  const AccessDesc wanted{{LocationType::kDevice, device}, access};
  EXPECT_OK(cuMemAddressReserve(&chunk.address, bytes, 0, 0, 0));
  EXPECT_OK(cuMemMap(chunk.address, bytes, 0, handle, 0));
  EXPECT_OK(cuMemSetAccess(chunk.address, bytes, &wanted, 1));
  return chunk;
}

MappedChunk new_chunk(Device device, std::size_t bytes) {
  AllocationHandle handle = 0;
  const AllocationProp wanted = exportable_on(device);
  EXPECT_OK(cuMemCreate(&handle, bytes, &wanted, 0));
  return map_chunk(handle, bytes, device);
}

void unmap_chunk(const MappedChunk& chunk) {
  EXPECT_OK(cuMemUnmap(chunk.address, chunk.bytes));
  EXPECT_OK(cuMemAddressFree(chunk.address, chunk.bytes));
  EXPECT_OK(cuMemRelease(chunk.handle));
}

}  // namespace standin::test
