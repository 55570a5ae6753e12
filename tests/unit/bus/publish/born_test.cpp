#include <gtest/gtest.h>

#include <cstring>
#include <memory>

#include "tensorbus/bus/born_allocator.hpp"
#include "tests/unit/bus/test_support.hpp"
#include "tests/unit/platform/test_support.hpp"

namespace tensorbus {
namespace {

constexpr std::size_t kBornBytes = 100'000;

TEST(Born, memory_is_of_the_arena_until_it_is_released) {
  const testing::FreshDomain domain;
  const bus::ParticipantRef participant = domain.join();
  bus::BornAllocator allocator(participant);
  const auto before = bus::BornAllocator::use();
  void* const first = allocator.allocate(kBornBytes);
  ASSERT_NE(first, nullptr);
  std::memset(first, 1, kBornBytes);
  EXPECT_GE(bus::BornAllocator::bytes_at(first), kBornBytes);
  EXPECT_EQ(participant->memory_use().blocks, 1U);
  EXPECT_EQ(bus::BornAllocator::use().blocks, before.blocks + 1);
  EXPECT_EQ(bus::BornAllocator::bytes_at(static_cast<std::byte*>(first) + 4096), 0U);
  EXPECT_FALSE(bus::BornAllocator::release(static_cast<std::byte*>(first) + 4096));
  EXPECT_TRUE(bus::BornAllocator::release(first));
  EXPECT_FALSE(bus::BornAllocator::release(first));
  EXPECT_FALSE(bus::BornAllocator::release(nullptr));
  EXPECT_EQ(participant->memory_use().blocks, 0U);
  EXPECT_EQ(bus::BornAllocator::use().bytes, before.bytes);
}

TEST(Born, nothing_comes_where_there_is_no_room_and_that_is_counted) {
  const testing::FreshDomain domain;
  const bus::ParticipantRef participant = domain.join({.budget_bytes = 2 * kBornBytes});
  bus::BornAllocator allocator(participant);
  const auto before = bus::BornAllocator::use();
  EXPECT_EQ(allocator.allocate(~std::size_t{0}), nullptr);
  EXPECT_EQ(allocator.allocate(3 * kBornBytes), nullptr);
  void* const first = allocator.allocate(kBornBytes);
  EXPECT_NE(first, nullptr);
  EXPECT_EQ(allocator.allocate(kBornBytes), nullptr);
  EXPECT_EQ(bus::BornAllocator::use().elsewhere, before.elsewhere + 3);
  EXPECT_TRUE(bus::BornAllocator::release(first));
  void* const again = allocator.allocate(kBornBytes);
  EXPECT_NE(again, nullptr);
  EXPECT_TRUE(bus::BornAllocator::release(again));
}

TEST(Born, memory_outlives_its_participant) {
  const testing::FreshDomain domain;
  auto participant = std::make_unique<bus::ParticipantRef>(domain.join());
  bus::BornAllocator allocator(*participant);
  void* const first = allocator.allocate(kBornBytes);
  participant.reset();
  std::memset(first, 1, kBornBytes);
  EXPECT_EQ(allocator.allocate(kBornBytes), nullptr);
  EXPECT_TRUE(bus::BornAllocator::release(first));
}

TEST(Born, a_forked_child_leaves_it_to_its_parent) {
  const testing::FreshDomain domain;
  const bus::ParticipantRef participant = domain.join();
  bus::BornAllocator allocator(participant);
  void* const first = allocator.allocate(kBornBytes);
  std::memset(first, 7, kBornBytes);
  test::Child child([&] {
    if (allocator.allocate(kBornBytes) != nullptr) return false;
    return static_cast<char*>(first)[kBornBytes - 1] == 7 && bus::BornAllocator::release(first) &&
           !bus::BornAllocator::release(first);
  });
  EXPECT_EQ(child.wait(), "exit 0");
  EXPECT_EQ(static_cast<char*>(first)[0], 7);
  EXPECT_TRUE(bus::BornAllocator::release(first));
}

}  // namespace
}  // namespace tensorbus
