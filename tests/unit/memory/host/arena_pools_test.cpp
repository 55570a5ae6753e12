// The pools of an arena: what borrowers only ever read, what some of them may write, and those that
// somebody has made for itself.

#include <fcntl.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <map>
#include <random>
#include <set>

#include "tensorbus/memory/host/arena.hpp"
#include "tensorbus/platform/files/memfd.hpp"
#include "tests/unit/platform/test_support.hpp"

namespace tensorbus::memory {
namespace {

constexpr std::size_t kPoolKiB = 1024;
constexpr std::size_t kPoolMiB = 1024 * kPoolKiB;

std::shared_ptr<Arena> arena_of_pools(std::size_t budget = 64 * kPoolMiB,
                                      std::size_t warm = 64 * kPoolMiB) {
  return Arena::create({.segment_bytes = 1 * kPoolMiB, .budget_bytes = budget, .warm_bytes = warm});
}

int mode_of(const SharedSegment& shared) { return ::fcntl(shared.fd.get(), F_GETFL) & O_ACCMODE; }

TEST(Pools, never_share_a_segment) {
  std::mt19937 random(5);
  const auto arena = arena_of_pools();
  const std::array pools{PoolId(Grant::kRead), PoolId(Grant::kWrite),
                         arena->make_pool(Grant::kRead), arena->make_pool(Grant::kWrite)};
  std::map<SegmentId, PoolId> seen;
  std::vector<BlockRef> blocks;
  for (int i = 0; i < 4000; ++i) {
    if (random() % 2 == 0 && !blocks.empty()) {
      std::swap(blocks[random() % blocks.size()], blocks.back());
      blocks.pop_back();
      continue;
    }
    const PoolId pool = pools[random() % pools.size()];
    try {
      blocks.push_back(arena->allocate(random() % (300 * kPoolKiB), pool));
    } catch (const Error&) {
      blocks.clear();
      continue;
    }
    ASSERT_TRUE(blocks.back()->pool() == pool);
    ASSERT_TRUE(seen.emplace(blocks.back()->segment(), pool).first->second == pool);
  }
  EXPECT_GT(seen.size(), 4U);
}

TEST(Pools, hand_out_what_may_be_written_of_one_alone) {
  const auto arena = arena_of_pools();
  const BlockRef read = arena->allocate(1000);
  const BlockRef write = arena->allocate(1000, Grant::kWrite);
  EXPECT_EQ(mode_of(arena->share_segment(read->segment())), O_RDONLY);
  EXPECT_EQ(mode_of(arena->share_segment(write->segment())), O_RDONLY);
  EXPECT_EQ(mode_of(arena->share_segment(write->segment(), Grant::kWrite)), O_RDWR);
  test::Child child([&] {
    (void)arena->share_segment(read->segment(), Grant::kWrite);
    return true;
  });
  EXPECT_EQ(child.wait(), "signal " + std::to_string(SIGABRT)) << "it is our own bug to ask";
}

TEST(Pools, find_their_blocks_by_address) {
  const auto arena = arena_of_pools();
  const BlockRef read = arena->allocate(1000);
  const BlockRef write = arena->allocate(1000, Grant::kWrite);
  EXPECT_EQ(arena->find(read->data()), read);
  EXPECT_EQ(arena->find(write->data() + 999), write);
}

TEST(Pools, have_one_budget_and_what_is_idle_in_one_makes_room_in_the_other) {
  const auto arena = arena_of_pools(2 * kPoolMiB);
  for (const Grant most : {Grant::kRead, Grant::kWrite, Grant::kRead}) {
    BlockRef block = arena->allocate(1536 * kPoolKiB, most);
    EXPECT_EQ(test::error_of([&] { arena->allocate(1 * kPoolMiB, Grant::kRead); }), "OutOfMemory");
    EXPECT_EQ(test::error_of([&] { arena->allocate(1 * kPoolMiB, Grant::kWrite); }), "OutOfMemory");
    block = {};
    EXPECT_LE(arena->stats().reserved_bytes, 2 * kPoolMiB);
  }
}

TEST(Pools, have_one_limit_of_warm_memory) {
  const auto arena = arena_of_pools(64 * kPoolMiB, 1 * kPoolMiB);
  BlockRef read = arena->allocate(3 * kPoolMiB);
  BlockRef write = arena->allocate(3 * kPoolMiB, Grant::kWrite);
  read = {};
  write = {};
  EXPECT_LE(arena->stats().reserved_bytes, 1 * kPoolMiB);
}

TEST(Pools, keep_one_segment_each_and_retire_the_others) {
  const auto arena = arena_of_pools(64 * kPoolMiB, 0);
  std::vector<BlockRef> blocks;
  std::set<SegmentId> segments;
  for (const Grant most : {Grant::kRead, Grant::kWrite})
    for (int i = 0; i < 3; ++i) {
      blocks.push_back(arena->allocate(1 * kPoolMiB, most));
      segments.insert(blocks.back()->segment());
    }
  EXPECT_EQ(segments.size(), 6U);
  blocks.clear();
  EXPECT_EQ(arena->stats().segments, 2U);
  EXPECT_EQ(arena->stats().reserved_bytes, 0U);
  const std::vector<SegmentId> retired = arena->take_retired();
  EXPECT_EQ(std::set(retired.begin(), retired.end()).size(), 4U);
  EXPECT_EQ(arena->allocate(1)->max_grant(), Grant::kRead);
  EXPECT_EQ(arena->allocate(1, Grant::kWrite)->max_grant(), Grant::kWrite);
  EXPECT_EQ(arena->stats().segments, 2U);
}

TEST(Pools, that_are_closed_lose_each_segment_with_its_last_block) {
  const auto arena = arena_of_pools();
  const PoolId pool = arena->make_pool(Grant::kWrite);
  BlockRef small = arena->allocate(1000, pool);
  BlockRef large = arena->allocate(6 * kPoolMiB, pool);
  const BlockRef other = arena->allocate(1000);
  {
    const BlockRef rests = arena->allocate(2000, pool);
  }
  arena->close_pool(pool);
  EXPECT_EQ(arena->stats().segments, 3U);
  EXPECT_EQ(test::error_of([&] { arena->allocate(2000, pool); }), "Closed");
  large = {};
  EXPECT_EQ(arena->stats().segments, 2U);
  small = {};
  EXPECT_EQ(arena->stats().segments, 1U);
  EXPECT_EQ(arena->stats().reserved_bytes, 256 * kPoolKiB) << "what the other block has";
  EXPECT_EQ(arena->take_retired().size(), 2U);
  EXPECT_EQ(test::error_of([&] { arena->allocate(2000, pool); }), "Closed");
}

TEST(Pools, that_are_closed_keep_a_segment_that_is_pinned) {
  const auto arena = arena_of_pools();
  const PoolId pool = arena->make_pool(Grant::kRead);
  BlockRef block = arena->allocate(1 * kPoolMiB, pool);
  const SegmentId segment = block->segment();
  const auto part = arena->pin(segment, block->offset(), block->generation());
  ASSERT_TRUE(part);
  block = {};
  arena->close_pool(pool);
  EXPECT_EQ(arena->stats().segments, 1U);
  arena->unpin(segment, *part);
  EXPECT_EQ(arena->stats().segments, 0U);
  EXPECT_EQ(arena->stats().reserved_bytes, 0U);
}

}  // namespace
}  // namespace tensorbus::memory
