// Which parts of a segment are taken and given back as whole huge pages. The rules hold whether the
// kernel gives huge pages or not; that it does is tested where shmem_enabled allows it.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <sstream>

#include "tensorbus/memory/host/arena.hpp"
#include "tensorbus/memory/host/borrowed_segments.hpp"
#include "tensorbus/platform/files/memfd.hpp"
#include "tests/unit/platform/test_support.hpp"

namespace tensorbus::memory::huge_segments {
namespace {

constexpr std::size_t kKiB = 1024;
constexpr std::size_t kMiB = 1024 * kKiB;
// Whatever the kernel gives.
const platform::HugePages kAdvised{2 * kMiB, platform::huge_pages().everywhere};
constexpr std::size_t kFrame = std::size_t{3840} * 2160 * 3;  // 23.7 MiB

std::shared_ptr<Arena> arena_with(platform::HugePages huge, std::size_t warm = 256 * kMiB,
                                  std::size_t budget = 1024 * kMiB) {
  return Arena::create({.budget_bytes = budget, .warm_bytes = warm, .huge_pages = huge});
}

std::size_t resident_bytes(const Arena& arena, SegmentId segment) {
  struct stat status{};
  EXPECT_EQ(::fstat(arena.share_segment(segment).fd.get(), &status), 0);
  return static_cast<std::size_t>(status.st_blocks) * 512;
}

// How much of the mapping at this address consists of huge pages that are mapped as such.
std::size_t mapped_huge_bytes(const void* address) {
  std::ifstream file("/proc/self/smaps");
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    unsigned long begin = 0;
    unsigned long end = 0;
    std::size_t kibibytes = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2)
      inside = begin <= reinterpret_cast<std::uintptr_t>(address) &&
               reinterpret_cast<std::uintptr_t>(address) < end;
    else if (inside && std::sscanf(line.c_str(), "ShmemPmdMapped: %zu kB", &kibibytes) == 1)
      return kibibytes * 1024;
  }
  return 0;
}

bool kernel_gives_huge_pages() {
  return test::error_of([] { platform::try_huge_pages(); }) == "nothing thrown";
}

TEST(HugeSegments, a_small_block_takes_as_little_as_ever) {
  const auto arena = arena_with(kAdvised);
  const BlockRef block = arena->allocate(1000);
  EXPECT_EQ(arena->stats().reserved_bytes, 256 * kKiB);
  EXPECT_EQ(resident_bytes(*arena, block->segment()), 256 * kKiB);
}

TEST(HugeSegments, a_large_block_begins_with_a_huge_page_and_ends_with_a_whole_one) {
  const auto arena = arena_with(kAdvised);
  const BlockRef small = arena->allocate(1000);
  const BlockRef frame = arena->allocate(kFrame);
  EXPECT_EQ(frame->offset(), 2 * kMiB);
  EXPECT_EQ(frame->bytes(), (kFrame + 4095) / 4096 * 4096);
  EXPECT_EQ(arena->stats().reserved_bytes, 256 * kKiB + 24 * kMiB);
  EXPECT_EQ(resident_bytes(*arena, frame->segment()), 256 * kKiB + 24 * kMiB);
}

TEST(HugeSegments, a_block_that_would_waste_more_than_an_eighth_does_not) {
  const auto arena = arena_with(kAdvised);
  const BlockRef small = arena->allocate(1000);
  const BlockRef block = arena->allocate(2 * kMiB + 4 * kKiB);
  EXPECT_EQ(block->offset(), 4 * kKiB);
  EXPECT_EQ(arena->stats().reserved_bytes, 2 * kMiB + 256 * kKiB);
}

TEST(HugeSegments, small_blocks_take_huge_pages_once_there_are_many) {
  const auto arena = arena_with(kAdvised);
  std::vector<BlockRef> blocks;
  std::size_t before = 0;
  for (int i = 0; i < 600; ++i) {
    blocks.push_back(arena->allocate(100 * kKiB));
    const ArenaUse use = arena->stats();
    EXPECT_LE(use.reserved_bytes, use.used_bytes + use.used_bytes / 7 + 512 * kKiB);
    if (use.reserved_bytes != before && before >= 17 * kMiB) {
      EXPECT_EQ((use.reserved_bytes - before) % (2 * kMiB), 0U) << before;
    }
    before = use.reserved_bytes;
  }
}

TEST(HugeSegments, the_budget_can_be_used_to_the_last_page) {
  for (const std::size_t budget : {kFrame / 4096 * 4096 + 4096, 3 * kMiB, 2 * kMiB + 4096}) {
    const auto arena = arena_with(kAdvised, 256 * kMiB, budget);
    EXPECT_TRUE(arena->allocate(budget)) << budget;
    std::vector<BlockRef> blocks;
    for (std::size_t i = 0; i < budget / 4096; ++i) blocks.push_back(arena->allocate(4096));
    EXPECT_LE(arena->stats().reserved_bytes, budget);
  }
}

TEST(HugeSegments, what_goes_back_goes_in_whole_huge_pages) {
  const auto arena = arena_with(kAdvised, 3 * kMiB);
  const BlockRef keeper = arena->allocate(kFrame);
  BlockRef frame = arena->allocate(kFrame);
  const std::size_t before = arena->stats().reserved_bytes;
  frame = {};
  const std::size_t after = arena->stats().reserved_bytes;
  EXPECT_LT(after, before);
  EXPECT_EQ((before - after) % (2 * kMiB), 0U);
  EXPECT_EQ(resident_bytes(*arena, keeper->segment()), after);
}

TEST(HugeSegments, the_end_of_a_block_stays_beside_the_warm_limit) {
  const auto arena = arena_with(kAdvised, 0);
  const BlockRef keeper = arena->allocate(kFrame);
  for (int i = 0; i < 3; ++i) {
    arena->allocate(kFrame);
    EXPECT_EQ(arena->stats().reserved_bytes % (2 * kMiB), 0U) << "a huge page was split";
    EXPECT_LE(arena->stats().reserved_bytes, kFrame + kFrame / 8);
  }
}

TEST(HugeSegments, are_split_if_the_warm_limit_is_met_no_other_way) {
  const auto arena = arena_with(kAdvised, 1 * kMiB);
  std::vector<BlockRef> blocks;
  for (int i = 0; i < 1024; ++i) blocks.push_back(arena->allocate(64 * kKiB));
  std::vector<BlockRef> kept;  // one in each huge page
  for (std::size_t i = 0; i < blocks.size(); i += 32) kept.push_back(blocks[i]);
  for (const BlockRef& block : kept) std::memset(block->data(), 7, block->bytes());
  blocks.clear();
  const ArenaUse use = arena->stats();
  EXPECT_LE(use.reserved_bytes, use.used_bytes + use.used_bytes / 8 + 1 * kMiB + 256 * kKiB);
  EXPECT_EQ(resident_bytes(*arena, kept[0]->segment()), use.reserved_bytes);
  for (const BlockRef& block : kept) EXPECT_EQ(block->data()[block->bytes() - 1], std::byte{7});
}

TEST(HugeSegments, what_is_pinned_is_not_given_back) {
  const auto arena = arena_with(kAdvised, 0);
  const BlockRef keeper = arena->allocate(1);
  BlockRef frame = arena->allocate(kFrame);
  const SegmentId segment = frame->segment();
  const auto pinned = arena->pin(segment, frame->offset(), frame->generation());
  ASSERT_TRUE(pinned);
  std::memset(frame->data(), 7, frame->bytes());
  const std::byte* const data = frame->data();
  frame = {};
  EXPECT_EQ(data[kFrame - 1], std::byte{7});
  arena->unpin(segment, *pinned);
  EXPECT_LE(arena->stats().reserved_bytes, 256 * kKiB);
}

TEST(HugeSegments, where_pages_are_huge_everywhere_little_stays_little) {
  if (!platform::huge_pages().everywhere) GTEST_SKIP() << "shmem_enabled is not always here";
  const auto arena = arena_with(platform::huge_pages());
  const BlockRef small = arena->allocate(1000);
  EXPECT_EQ(resident_bytes(*arena, small->segment()), 256 * kKiB);
  const BlockRef larger = arena->allocate(2 * kMiB + 4 * kKiB);
  EXPECT_EQ(resident_bytes(*arena, small->segment()), arena->stats().reserved_bytes);
}

TEST(HugeSegments, owner_and_borrower_have_a_large_block_in_huge_pages) {
  if (!kernel_gives_huge_pages()) GTEST_SKIP() << "this machine gives no huge pages";
  const auto arena = arena_with(platform::huge_pages());
  const BlockRef small = arena->allocate(1000);
  const BlockRef frame = arena->allocate(kFrame);
  std::memset(frame->data(), 7, kFrame);
  EXPECT_EQ(mapped_huge_bytes(frame->data()), 24 * kMiB);
  BorrowedSegments borrowed(Grant::kRead);
  SharedSegment shared = arena->share_segment(frame->segment());
  borrowed.add(frame->segment(), std::move(shared.fd), shared.bytes);
  const std::byte* const data = borrowed.find(frame->segment())->data() + frame->offset();
  std::size_t sum = 0;
  for (std::size_t i = 0; i < kFrame; i += 4096) sum += static_cast<std::size_t>(data[i]);
  EXPECT_EQ(sum, 7 * ((kFrame + 4095) / 4096));
  EXPECT_EQ(mapped_huge_bytes(data), 24 * kMiB);
}

TEST(HugeSegments, a_private_mapping_of_a_block_copies_only_what_is_written) {
  const auto arena = arena_with(kAdvised);
  const BlockRef frame = arena->allocate(kFrame);
  std::memset(frame->data(), 7, kFrame);
  BorrowedSegments borrowed(Grant::kRead);
  SharedSegment shared = arena->share_segment(frame->segment());
  borrowed.add(frame->segment(), std::move(shared.fd), shared.bytes);
  const Range range{frame->offset(), frame->offset() + frame->bytes()};
  const BorrowedSegments::Ref own = borrowed.map_own(frame->segment(), range);
  own->data()[5 * kMiB] = std::byte{8};
  EXPECT_EQ(frame->data()[5 * kMiB], std::byte{7});
  frame->data()[4 * kMiB] = std::byte{9};  // another page: the mapping shows it
  EXPECT_EQ(own->data()[4 * kMiB], std::byte{9});
}

}  // namespace
}  // namespace tensorbus::memory::huge_segments
