#include "tensorbus/memory/host/segment.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cstring>

#include "tensorbus/platform/files/memfd.hpp"

namespace tensorbus::memory {
namespace {

const std::size_t kPage = platform::page_bytes();
constexpr std::size_t kSegmentBytes = std::size_t{1} << 20;
// None, whatever the kernel gives.
const platform::HugePages kNoHuge{0, platform::huge_pages().everywhere};

std::size_t resident_bytes(const Segment& segment) {
  struct stat status{};
  EXPECT_EQ(::fstat(segment.descriptor(Grant::kRead).get(), &status), 0);
  return static_cast<std::size_t>(status.st_blocks) * 512;
}

TEST(Segment, takes_memory_when_it_is_reserved_and_not_twice) {
  Segment segment(7, kSegmentBytes, Grant::kRead, kNoHuge);
  EXPECT_EQ(segment.id(), 7U);
  EXPECT_EQ(segment.bytes(), kSegmentBytes);
  EXPECT_EQ(segment.reserved_bytes(), 0U);
  EXPECT_EQ(resident_bytes(segment), 0U);
  ASSERT_TRUE(segment.reserve({0, 1}));
  const std::size_t first = segment.reserved_bytes();
  EXPECT_GE(first, kPage);
  EXPECT_EQ(resident_bytes(segment), first);
  ASSERT_TRUE(segment.reserve({0, first}));
  EXPECT_EQ(resident_bytes(segment), first);
  ASSERT_TRUE(segment.reserve({0, kSegmentBytes}));
  EXPECT_EQ(segment.reserved_bytes(), kSegmentBytes);
  EXPECT_EQ(resident_bytes(segment), kSegmentBytes);
}

TEST(Segment, gives_back_only_pages_that_lie_wholly_inside) {
  Segment segment(0, kSegmentBytes, Grant::kRead, kNoHuge);
  ASSERT_TRUE(segment.reserve({0, kSegmentBytes}));
  std::memset(segment.data(), 1, kSegmentBytes);
  segment.punch({1, 2 * kPage + 1}, kSegmentBytes);
  EXPECT_EQ(segment.reserved_bytes(), kSegmentBytes - kPage);
  EXPECT_EQ(resident_bytes(segment), kSegmentBytes - kPage);
  EXPECT_EQ(segment.data()[0], std::byte{1});
  EXPECT_EQ(segment.data()[kPage - 1], std::byte{1});
  EXPECT_EQ(segment.data()[kPage], std::byte{0});
  EXPECT_EQ(segment.data()[2 * kPage], std::byte{1});
  segment.punch({5, kPage - 5}, kSegmentBytes);  // less than a page
  EXPECT_EQ(segment.data()[5], std::byte{1});
}

TEST(Segment, can_be_given_back_to_the_last_page) {
  Segment segment(0, kSegmentBytes, Grant::kRead, kNoHuge);
  ASSERT_TRUE(segment.reserve({0, kSegmentBytes}));
  segment.punch({0, kSegmentBytes}, kSegmentBytes);
  EXPECT_EQ(segment.reserved_bytes(), 0U);
  EXPECT_EQ(resident_bytes(segment), 0U);
}

TEST(Segment, keeps_its_first_pages_when_not_all_have_to_go) {
  Segment segment(0, kSegmentBytes, Grant::kRead, kNoHuge);
  ASSERT_TRUE(segment.reserve({0, kSegmentBytes}));
  std::memset(segment.data(), 1, kSegmentBytes);
  segment.punch({0, kSegmentBytes}, kSegmentBytes / 2);
  EXPECT_EQ(segment.reserved_bytes(), kSegmentBytes / 2);
  EXPECT_EQ(resident_bytes(segment), kSegmentBytes / 2);
  EXPECT_EQ(segment.data()[kSegmentBytes / 2 - 1], std::byte{1});
  segment.punch({0, kSegmentBytes}, 0);
  EXPECT_EQ(segment.reserved_bytes(), kSegmentBytes / 2);
}

TEST(Segment, is_readable_and_not_writable_through_the_descriptor_for_borrowers) {
  Segment segment(0, kSegmentBytes, Grant::kRead, kNoHuge);
  ASSERT_TRUE(segment.reserve({0, 1}));
  segment.data()[0] = std::byte{5};
  const platform::Fd fd = segment.descriptor(Grant::kRead);
  platform::verify_sealed_memfd(fd.get(), kSegmentBytes, "test");
  const platform::Mapping mapping(fd.get(), kSegmentBytes, platform::Mapping::Access::kRead);
  EXPECT_EQ(mapping.data()[0], std::byte{5});
  EXPECT_EQ(::mprotect(mapping.data(), kSegmentBytes, PROT_READ | PROT_WRITE), -1);
}

}  // namespace
}  // namespace tensorbus::memory
