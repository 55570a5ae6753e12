#include "tensorbus/memory/segment_id.hpp"

#include <gtest/gtest.h>

namespace tensorbus::memory {
namespace {

TEST(SegmentIds, have_the_kind_that_they_were_made_with) {
  constexpr std::uint32_t kMax = SegmentId::kMaxOfDevice - 1;
  for (const std::uint32_t index : {0U, 1U, kMax}) {
    EXPECT_EQ(SegmentId::host(index).kind(), SegmentKind::kHost);
    EXPECT_EQ(SegmentId::foreign(index).kind(), SegmentKind::kForeign);
    EXPECT_EQ(SegmentId::file(index).kind(), SegmentKind::kFile);
    for (const std::uint32_t ordinal : {0U, 1U, SegmentId::kMaxDevices - 1}) {
      const SegmentId id = SegmentId::device(ordinal, index);
      EXPECT_EQ(id.kind(), SegmentKind::kDevice);
      EXPECT_EQ(id.ordinal(), static_cast<int>(ordinal));
    }
  }
  EXPECT_EQ(SegmentId::none().kind(), SegmentKind::kNone);
}

// docs/internals/protocol.md: the numbers travel.
TEST(SegmentIds, are_the_numbers_of_the_protocol) {
  EXPECT_EQ(SegmentId::host(7).number, 7U);
  EXPECT_EQ(SegmentId::device(2, 3).number, 0x40200003U);
  EXPECT_EQ(SegmentId::foreign(3).number, 0x60000003U);
  EXPECT_EQ(SegmentId::file(3).number, 0x80000003U);
  EXPECT_EQ(SegmentId::none().number, 0xffffffffU);
}

TEST(SegmentIds, change_their_kind_at_the_borders) {
  EXPECT_EQ(SegmentId(0x3fffffff).kind(), SegmentKind::kHost);
  EXPECT_EQ(SegmentId(0x5fffffff).kind(), SegmentKind::kDevice);
  EXPECT_EQ(SegmentId(0x7fffffff).kind(), SegmentKind::kForeign);
  EXPECT_EQ(SegmentId(0xfffffffe).kind(), SegmentKind::kFile);
}

TEST(SegmentIds, of_gpu_memory_are_those_of_both_kinds) {
  EXPECT_TRUE(SegmentId::device(0, 0).on_device());
  EXPECT_TRUE(SegmentId::foreign(0).on_device());
  EXPECT_FALSE(SegmentId::host(0).on_device());
  EXPECT_FALSE(SegmentId::file(0).on_device());
  EXPECT_FALSE(SegmentId::none().on_device());
}

}  // namespace
}  // namespace tensorbus::memory
