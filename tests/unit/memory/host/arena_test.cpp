#include "tensorbus/memory/host/arena.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cstring>
#include <random>
#include <set>

#include "tensorbus/platform/files/memfd.hpp"
#include "tests/unit/platform/test_support.hpp"

namespace tensorbus::memory {
namespace {

constexpr std::size_t kKiB = 1024;
constexpr std::size_t kMiB = 1024 * kKiB;

// None, whatever the kernel gives.
const platform::HugePages kNone{0, platform::huge_pages().everywhere};

std::shared_ptr<Arena> small_arena(std::size_t budget = 16 * kMiB, std::size_t warm = 16 * kMiB) {
  return Arena::create(
      {.segment_bytes = 4 * kMiB, .budget_bytes = budget, .warm_bytes = warm, .huge_pages = kNone});
}

std::string refusal_of(Arena& arena, std::size_t bytes) {
  std::string message;
  const std::string code = test::error_of([&] { arena.allocate(bytes); }, &message);
  return code + ": " + message;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::size_t resident_bytes(const Arena& arena, SegmentId segment) {
  struct stat status{};
  EXPECT_EQ(::fstat(arena.share_segment(segment).fd.get(), &status), 0);
  return static_cast<std::size_t>(status.st_blocks) * 512;
}

TEST(Arena, gives_aligned_blocks_that_are_large_enough_and_writable) {
  const auto arena = small_arena();
  std::vector<BlockRef> blocks;
  for (const std::size_t bytes :
       {std::size_t{0}, std::size_t{1}, std::size_t{256}, 257 * kKiB + 1, 2 * kMiB, 5 * kMiB}) {
    blocks.push_back(arena->allocate(bytes));
    EXPECT_GE(blocks.back()->bytes(), bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(blocks.back()->data()) % kBlockAlignment, 0U);
    std::memset(blocks.back()->data(), 1, blocks.back()->bytes());
  }
  EXPECT_EQ(arena->stats().blocks, blocks.size());
}

TEST(Arena, says_where_a_block_lies_in_the_segment_that_others_map) {
  const auto arena = small_arena();
  const BlockRef first = arena->allocate(1000);
  const BlockRef block = arena->allocate(1000);
  std::memset(block->data(), 77, 1000);
  const SharedSegment shared = arena->share_segment(block->segment());
  const platform::Mapping mapping(shared.fd.get(), shared.bytes, platform::Mapping::Access::kRead);
  EXPECT_EQ(std::memcmp(mapping.data() + block->offset(), block->data(), 1000), 0);
}

TEST(Arena, reuses_the_block_that_was_freed_last) {
  const auto arena = small_arena();
  const BlockRef before = arena->allocate(100 * kKiB);
  BlockRef block = arena->allocate(300 * kKiB);
  const BlockRef after = arena->allocate(100 * kKiB);
  const std::byte* const data = block->data();
  const std::size_t reserved = arena->stats().reserved_bytes;
  for (int i = 0; i < 10; ++i) {
    block = {};
    block = arena->allocate(300 * kKiB);
    EXPECT_EQ(block->data(), data);
  }
  EXPECT_EQ(arena->stats().reserved_bytes, reserved);
}

TEST(Arena, gives_a_block_that_was_let_go_of_as_one_that_nobody_had) {
  const auto arena = small_arena();
  BlockRef block = arena->allocate(1000);
  const std::byte* const data = block->data();
  const std::uint64_t generation = block->generation();
  block->mark_published();
  block->make_persistent();
  block->set_write_mark(7);
  block = {};
  block = arena->allocate(1000);
  ASSERT_EQ(block->data(), data);
  EXPECT_NE(block->generation(), generation);
  EXPECT_FALSE(arena->find(block->segment(), block->offset(), generation));
  EXPECT_FALSE(block->published());
  EXPECT_FALSE(block->persistent());
  EXPECT_EQ(block->write_mark(), 0U);
  EXPECT_TRUE(block.unshared());
}

TEST(Arena, joins_what_was_let_go_of_for_a_larger_block) {
  const auto arena = small_arena();
  std::vector<BlockRef> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(arena->allocate(1 * kMiB));
  blocks.clear();
  EXPECT_EQ(arena->stats().used_bytes, 0U);
  EXPECT_TRUE(arena->allocate(4 * kMiB));
  EXPECT_EQ(arena->stats().segments, 1U);
}

TEST(Arena, takes_any_number_of_blocks_back_and_gives_them_again) {
  const auto arena = small_arena();
  for (int round = 0; round < 3; ++round) {
    std::vector<BlockRef> blocks;
    std::set<const std::byte*> places;
    for (int i = 0; i < 200; ++i) {
      blocks.push_back(arena->allocate(1 + static_cast<std::size_t>(i % 3) * 1000));
      EXPECT_TRUE(places.insert(blocks.back()->data()).second);
    }
    EXPECT_EQ(arena->stats().blocks, 200U);
  }
  EXPECT_EQ(arena->stats().blocks, 0U);
  EXPECT_EQ(arena->stats().used_bytes, 0U);
}

TEST(Arena, never_gives_a_generation_twice) {
  const auto arena = small_arena();
  std::set<std::uint64_t> generations;
  for (int i = 0; i < 100; ++i)
    EXPECT_TRUE(generations.insert(arena->allocate(1)->generation()).second);
}

TEST(Arena, frees_a_block_with_its_last_reference) {
  const auto arena = small_arena();
  BlockRef first = arena->allocate(1000);
  BlockRef second = first;
  const BlockRef third = std::move(first);
  EXPECT_EQ(second, third);
  second = {};
  EXPECT_EQ(arena->stats().blocks, 1U);
  {
    const BlockRef last = std::move(const_cast<BlockRef&>(third));
    EXPECT_EQ(arena->stats().used_bytes, 1024U);
  }
  EXPECT_EQ(arena->stats().blocks, 0U);
  EXPECT_EQ(arena->stats().used_bytes, 0U);
}

TEST(Arena, lives_as_long_as_its_blocks) {
  auto arena = small_arena();
  const std::weak_ptr<Arena> watch = arena;
  BlockRef block = arena->allocate(1000);
  arena.reset();
  EXPECT_FALSE(watch.expired());
  std::memset(block->data(), 1, block->bytes());
  block = {};
  EXPECT_TRUE(watch.expired());
}

TEST(Arena, finds_the_block_that_holds_an_address) {
  const auto arena = small_arena();
  std::vector<BlockRef> blocks;
  for (const std::size_t bytes : {1000 * kKiB, 5 * kMiB, 3000 * kKiB, std::size_t{1}})
    blocks.push_back(arena->allocate(bytes));
  EXPECT_GT(arena->stats().segments, 1U);
  for (const BlockRef& block : blocks) {
    EXPECT_EQ(arena->find(block->data()), block);
    EXPECT_EQ(arena->find(block->data() + block->bytes() - 1), block);
  }
  const int elsewhere = 0;
  EXPECT_FALSE(arena->find(&elsewhere));
  EXPECT_FALSE(arena->find(nullptr));
  const std::byte* gone = blocks[0]->data();
  blocks[0] = {};
  EXPECT_FALSE(arena->find(gone));
}

TEST(Arena, a_block_is_published_once_unless_it_is_taken_back) {
  const auto arena = small_arena();
  const BlockRef block = arena->allocate(1);
  EXPECT_FALSE(block->published());
  EXPECT_TRUE(block->mark_published());
  EXPECT_FALSE(block->mark_published());
  EXPECT_TRUE(block->published());
  block->unmark_published();
  EXPECT_TRUE(block->mark_published());
}

TEST(Budget, is_named_when_one_block_exceeds_it) {
  const auto arena = small_arena(1 * kMiB);
  const std::string refusal = refusal_of(*arena, 1 * kMiB + 1);
  EXPECT_TRUE(refusal.starts_with("OutOfMemory: 1048577 bytes")) << refusal;
  EXPECT_TRUE(contains(refusal, "byte budget is 1048576 bytes (1 MiB)")) << refusal;
  EXPECT_TRUE(contains(refusal, "TENSORBUS_BUDGET")) << refusal;
  EXPECT_TRUE(contains(refusal_of(*arena, ~std::size_t{0}), "byte budget"));
}

TEST(Budget, is_named_with_what_is_in_use_and_free_again_afterwards) {
  const auto arena = small_arena(2 * kMiB);
  BlockRef block = arena->allocate(1536 * kKiB);
  const std::string refusal = refusal_of(*arena, 1 * kMiB);
  EXPECT_TRUE(contains(refusal, "1572864 bytes (1 MiB) of the byte budget of 2097152")) << refusal;
  EXPECT_EQ(arena->stats().blocks, 1U);
  block = {};
  EXPECT_TRUE(arena->allocate(2 * kMiB));
}

TEST(Budget, can_be_used_to_the_last_page) {
  const std::size_t page = platform::page_bytes();
  for (const std::size_t budget : {page, 25 * page, 100 * page + 1, 2 * kMiB + 3 * page}) {
    const auto arena = small_arena(budget);
    EXPECT_TRUE(arena->allocate(budget / page * page)) << budget;
    std::vector<BlockRef> blocks;
    for (std::size_t i = 0; i < budget / page; ++i) blocks.push_back(arena->allocate(page));
    EXPECT_TRUE(contains(refusal_of(*arena, page), "in use")) << budget;
  }
}

TEST(Budget, is_never_exceeded_and_what_is_idle_makes_room) {
  std::mt19937 random(3);
  const std::size_t budget = 6 * kMiB + 12345;
  const auto arena = small_arena(budget, 2 * kMiB);
  std::vector<BlockRef> blocks;
  int refused = 0;
  for (int i = 0; i < 3000; ++i) {
    if (random() % 2 == 0 && !blocks.empty()) {
      std::swap(blocks[random() % blocks.size()], blocks.back());
      blocks.pop_back();
    } else {
      const std::size_t bytes = random() % (random() % 8 == 0 ? 2 * kMiB : 200 * kKiB);
      try {
        blocks.push_back(arena->allocate(bytes));
        std::memset(blocks.back()->data(), 1, blocks.back()->bytes());
      } catch (const Error& error) {
        ASSERT_EQ(error.code(), Code::kOutOfMemory);
        ++refused;
        // Each block may keep a page at each end from being given back.
        ASSERT_GT(arena->stats().used_bytes + bytes + (2 * blocks.size() + 2) * 4096, budget);
      }
    }
    const ArenaUse stats = arena->stats();
    ASSERT_LE(stats.reserved_bytes, budget);
    ASSERT_LE(stats.used_bytes, stats.reserved_bytes);
  }
  EXPECT_GT(refused, 0);
  blocks.clear();
  EXPECT_EQ(arena->stats().used_bytes, 0U);
  EXPECT_LE(arena->stats().reserved_bytes, 2 * kMiB);
}

TEST(Warm, memory_stays_up_to_its_limit_and_the_rest_goes_back) {
  const auto arena = small_arena(16 * kMiB, 2 * kMiB);
  BlockRef keeper = arena->allocate(1);
  BlockRef block = arena->allocate(3 * kMiB);
  const SegmentId segment = block->segment();
  ASSERT_EQ(keeper->segment(), segment);
  block = {};
  const ArenaUse stats = arena->stats();
  EXPECT_LE(stats.reserved_bytes, stats.used_bytes + 2 * kMiB);
  EXPECT_GT(stats.reserved_bytes, 1 * kMiB) << "more was given back than had to";
  EXPECT_EQ(resident_bytes(*arena, segment), stats.reserved_bytes);
}

TEST(Warm, nothing_stays_when_nothing_may) {
  const auto arena = small_arena(16 * kMiB, 0);
  BlockRef keeper = arena->allocate(1);
  BlockRef block = arena->allocate(3 * kMiB);
  std::memset(block->data(), 1, block->bytes());
  block = {};
  EXPECT_LE(arena->stats().reserved_bytes, platform::page_bytes());
  EXPECT_LE(resident_bytes(*arena, keeper->segment()), platform::page_bytes());
  keeper->data()[0] = std::byte{1};
  keeper = {};
  EXPECT_EQ(arena->stats().reserved_bytes, 0U);
}

TEST(Warm, memory_of_a_closed_arena_stays_whatever_the_limit) {
  const auto arena = small_arena(16 * kMiB, 0);
  BlockRef block = arena->allocate(3 * kMiB);
  const SegmentId segment = block->segment();
  arena->close();
  block = {};
  EXPECT_GE(resident_bytes(*arena, segment), 3 * kMiB);
}

TEST(Segments, retire_when_they_are_empty_and_tell_the_listener) {
  const auto arena = small_arena(64 * kMiB, 0);
  int told = 0;
  arena->on_retired([&] { ++told; });
  BlockRef first = arena->allocate(4 * kMiB);
  BlockRef second = arena->allocate(4 * kMiB);
  BlockRef large = arena->allocate(9 * kMiB);
  EXPECT_EQ(arena->stats().segments, 3U);
  EXPECT_EQ(arena->share_segment(large->segment()).bytes, 9 * kMiB);
  const std::vector<SegmentId> expected{second->segment(), large->segment()};
  second = {};
  large = {};
  EXPECT_EQ(arena->take_retired(), expected);
  EXPECT_EQ(arena->take_retired(), std::vector<SegmentId>{});
  EXPECT_EQ(told, 2);
  first = {};
  EXPECT_EQ(arena->stats().segments, 1U) << "the last one stays";
  EXPECT_NE(arena->allocate(5 * kMiB)->segment(), expected[1]) << "numbers are not reused";
}

TEST(Segments, retire_when_their_warm_memory_is_given_back_for_others) {
  const auto arena = small_arena(64 * kMiB, 4 * kMiB);
  BlockRef first = arena->allocate(4 * kMiB);
  BlockRef second = arena->allocate(4 * kMiB);
  second = {};  // warm
  EXPECT_EQ(arena->stats().segments, 2U);
  first = {};  // too much is warm now: what was the second block's goes back
  EXPECT_EQ(arena->stats().segments, 1U);
  EXPECT_EQ(arena->take_retired().size(), 1U);
}

TEST(Segments, of_any_size_can_be_given_back_whole) {
  const auto arena = Arena::create({.segment_bytes = 1 * kMiB - 100,
                                    .budget_bytes = 16 * kMiB,
                                    .warm_bytes = 0,
                                    .huge_pages = kNone});
  std::vector<BlockRef> blocks;
  for (int i = 0; i < 40; ++i) blocks.push_back(arena->allocate(100 * kKiB));
  EXPECT_GT(arena->stats().segments, 1U);
  blocks.clear();
  EXPECT_EQ(arena->stats().reserved_bytes, 0U);
  EXPECT_EQ(arena->stats().segments, 1U);
}

TEST(Segments, stay_below_the_file_size_limit) {
  test::Child child([] {
    const rlimit limit{2 * kMiB, 2 * kMiB};
    if (::setrlimit(RLIMIT_FSIZE, &limit) < 0) return false;
    const auto arena = small_arena();
    std::vector<BlockRef> blocks;
    for (int i = 0; i < 8; ++i) blocks.push_back(arena->allocate(1 * kMiB));
    return arena->stats().segments == 4 && contains(refusal_of(*arena, 3 * kMiB), "RLIMIT_FSIZE");
  });
  EXPECT_EQ(child.wait(), "exit 0");
}

}  // namespace
}  // namespace tensorbus::memory
