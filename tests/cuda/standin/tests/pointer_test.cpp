#include <array>

#include "process.hpp"

namespace standin::test {
namespace {

// All that is asked about a pointer, in one call.
struct Attributes {
  unsigned type = 99;
  int device = 99;
  std::uint64_t buffer_id = 99;
  std::uint64_t handle_types = 99;
  DevicePtr start = 99;
  std::size_t bytes = 99;
  DevicePtr mapping_start = 99;
  std::size_t mapping_bytes = 99;
  bool legacy_capable = false;
  bool managed = true;
};

Attributes attributes_of(DevicePtr address) {
  using enum PointerAttribute;
  Attributes all;
  std::array wanted{kMemoryType, kDeviceOrdinal, kBufferId,    kAllowedHandleTypes, kRangeStart,
                    kRangeSize,  kMappingBase,   kMappingSize, kIsLegacyIpcCapable, kIsManaged};
  std::array<void*, 10> data{
      &all.type,  &all.device,        &all.buffer_id,     &all.handle_types,   &all.start,
      &all.bytes, &all.mapping_start, &all.mapping_bytes, &all.legacy_capable, &all.managed};
  EXPECT_OK(cuPointerGetAttributes(wanted.size(), wanted.data(), data.data(), address));
  EXPECT_FALSE(all.managed);
  return all;
}
MemoryType type_of(const Attributes& attributes) { return MemoryType{attributes.type}; }

TEST(Pointers, into_a_mapping_know_it_and_what_was_reserved) {
  in_process([] {
    const Session session;
    const MappedChunk chunk = new_chunk(1, 2 * kChunkBytes);
    const Attributes found = attributes_of(chunk.address + 12345);
    EXPECT_EQ(type_of(found), MemoryType::kDevice);
    EXPECT_EQ(found.device, 1);
    EXPECT_EQ(found.start, chunk.address);
    EXPECT_EQ(found.bytes, chunk.bytes);
    EXPECT_EQ(found.mapping_start, chunk.address);
    EXPECT_EQ(found.mapping_bytes, chunk.bytes);
    EXPECT_EQ(HandleType{static_cast<int>(found.handle_types)}, HandleType::kPosixFd);
    EXPECT_FALSE(found.legacy_capable);
  });
}

TEST(Pointers, into_one_of_several_mappings_know_that_one) {
  in_process([] {
    const Session session;
    const AllocationProp wanted = exportable_on(0);
    AllocationHandle handle = 0;
    DevicePtr address = 0;
    EXPECT_OK(cuMemAddressReserve(&address, 3 * kChunkBytes, 0, 0, 0));
    EXPECT_OK(cuMemCreate(&handle, kChunkBytes, &wanted, 0));
    EXPECT_OK(cuMemMap(address, kChunkBytes, 0, handle, 0));
    EXPECT_OK(cuMemMap(address + kChunkBytes, kChunkBytes, 0, handle, 0));
    const Attributes found = attributes_of(address + kChunkBytes);
    EXPECT_EQ(found.start, address);
    EXPECT_EQ(found.bytes, 3 * kChunkBytes);
    EXPECT_EQ(found.mapping_start, address + kChunkBytes);
    EXPECT_EQ(found.mapping_bytes, kChunkBytes);
    EXPECT_NE(found.buffer_id, attributes_of(address).buffer_id);
    EXPECT_EQ(attributes_of(address + 2 * kChunkBytes).type, 0U);
  });
}

TEST(Pointers, of_cuMemAlloc_have_a_buffer_id_that_does_not_come_again) {
  in_process([] {
    const Session session;
    DevicePtr address = 0;
    EXPECT_OK(cuMemAlloc_v2(&address, 1000));
    const Attributes first = attributes_of(address + 10);
    EXPECT_EQ(type_of(first), MemoryType::kDevice);
    EXPECT_TRUE(first.legacy_capable);
    EXPECT_EQ(first.handle_types, 0U);
    EXPECT_EQ(first.start, address);
    EXPECT_EQ(first.bytes, 1000U);
    EXPECT_OK(cuMemFree_v2(address));
    EXPECT_OK(cuMemAlloc_v2(&address, 1000));
    EXPECT_NE(attributes_of(address).buffer_id, first.buffer_id);
  });
}

TEST(Pointers, into_registered_host_memory_are_the_hosts) {
  in_process([] {
    const Session session;
    const RegisteredPage page;
    const Attributes found = attributes_of(page.address(3));
    EXPECT_EQ(type_of(found), MemoryType::kHost);
    EXPECT_EQ(found.start, page.address());
  });
}

TEST(Pointers, that_the_driver_does_not_know_are_no_error) {
  in_process([] {
    const Session session;
    const int own = 0;
    const Attributes found = attributes_of(reinterpret_cast<DevicePtr>(&own));
    EXPECT_EQ(found.type, 0U);
    EXPECT_EQ(found.start, 0U);
    EXPECT_EQ(found.buffer_id, 0U);
    EXPECT_EQ(found.device, -2);
  });
}

}  // namespace
}  // namespace standin::test
