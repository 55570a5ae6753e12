#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <random>
#include <thread>

#include "tensorbus/memory/host/arena.hpp"
#include "tensorbus/platform/error.hpp"

namespace tensorbus::memory {
namespace {

constexpr std::size_t kOneMiB = std::size_t{1} << 20;

std::shared_ptr<Arena> arena_that_trims() {
  return Arena::create(
      {.segment_bytes = 1 * kOneMiB, .budget_bytes = 8 * kOneMiB, .warm_bytes = 256 * 1024});
}

bool all_bytes_are(const Block& block, std::byte value) {
  for (std::size_t i = 0; i < block.bytes(); ++i)
    if (block.data()[i] != value) return false;
  return true;
}

TEST(ArenaThreads, never_share_a_block_that_one_of_them_has) {
  const auto arena = arena_that_trims();
  arena->on_retired([] {});
  std::atomic<int> damaged{0};
  {
    std::vector<std::jthread> threads;
    for (int id = 1; id <= 4; ++id)
      threads.emplace_back([&, id] {
        std::mt19937 random(static_cast<unsigned>(id));
        const auto mark = static_cast<std::byte>(id);
        std::vector<BlockRef> mine;
        for (int i = 0; i < 500; ++i) {
          if (mine.size() < 4) {
            mine.push_back(arena->allocate(random() % (random() % 4 == 0 ? 400'000 : 20'000)));
            std::memset(mine.back()->data(), id, mine.back()->bytes());
          } else {
            std::swap(mine[random() % mine.size()], mine.back());
            if (!all_bytes_are(*mine.back(), mark)) damaged.fetch_add(1);
            mine.pop_back();
          }
          (void)arena->take_retired();
        }
      });
  }
  EXPECT_EQ(damaged.load(), 0);
  EXPECT_EQ(arena->stats().blocks, 0U);
  EXPECT_EQ(arena->stats().used_bytes, 0U);
}

TEST(ArenaThreads, that_wait_for_room_get_it_when_a_block_is_freed) {
  const auto arena = arena_that_trims();
  for (int round = 0; round < 200; ++round) {
    BlockRef all = arena->allocate(8 * kOneMiB);
    RoomWait room(*arena);
    EXPECT_THROW(room.attempt([&] { (void)arena->allocate(1); }), ArenaFull);
    std::jthread other([&] { all = {}; });
    while (!room.freed()) (void)room.sleep(std::chrono::hours(1));
    EXPECT_TRUE(arena->allocate(8 * kOneMiB));
  }
}

TEST(ArenaThreads, are_not_woken_for_room_by_an_attempt_that_is_undone) {
  const auto arena = arena_that_trims();
  const BlockRef most = arena->allocate(7 * kOneMiB);
  RoomWait room(*arena);
  const auto two_blocks = [&] {
    const BlockRef first = arena->allocate(kOneMiB);
    (void)arena->allocate(kOneMiB);
  };
  EXPECT_THROW(room.attempt(two_blocks), ArenaFull);
  EXPECT_FALSE(room.freed());
  EXPECT_TRUE(arena->allocate(kOneMiB));
  EXPECT_TRUE(room.freed());
}

TEST(ArenaThreads, do_not_wait_for_room_where_nothing_can_be_freed) {
  const auto arena = arena_that_trims();
  const auto waits = [&](std::size_t bytes) {
    try {
      (void)arena->allocate(bytes);
    } catch (const ArenaFull&) {
      return true;
    } catch (const Error&) {
    }
    return false;
  };
  EXPECT_FALSE(waits(9 * kOneMiB));
  const BlockRef one = arena->allocate(1);
  EXPECT_FALSE(waits(9 * kOneMiB));
  EXPECT_TRUE(waits(8 * kOneMiB));
}

TEST(ArenaThreads, may_let_go_of_one_block_at_the_same_time) {
  const auto arena = arena_that_trims();
  for (int round = 0; round < 100; ++round) {
    const BlockRef block = arena->allocate(1000);
    std::vector<BlockRef> references(4, block);
    std::vector<std::jthread> threads;
    for (BlockRef& reference : references)
      threads.emplace_back([mine = std::move(reference)]() mutable {
        for (int i = 0; i < 50; ++i) const BlockRef another = mine;
        mine = {};
      });
  }
  EXPECT_EQ(arena->stats().blocks, 0U);
}

TEST(ArenaThreads, find_a_block_whole_or_not_at_all_while_it_goes) {
  const auto arena = arena_that_trims();
  std::atomic<const std::byte*> address{nullptr};
  std::atomic<bool> done{false};
  std::atomic<int> found{0};
  std::jthread finder([&] {
    while (!done.load()) {
      const std::byte* at = address.load();
      const BlockRef block = arena->find(at);
      if (!block) continue;
      found.fetch_add(1);
      if (at < block->data() || at >= block->data() + block->bytes()) std::abort();
    }
  });
  for (int i = 0; i < 5000 || found.load() == 0; ++i) {
    const BlockRef block = arena->allocate(1000);
    address.store(block->data() + 10);
  }
  done.store(true);
  finder.join();
  EXPECT_EQ(arena->stats().blocks, 0U);
}

}  // namespace
}  // namespace tensorbus::memory
