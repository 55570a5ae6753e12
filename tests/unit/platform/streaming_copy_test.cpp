#include "tensorbus/platform/streaming_copy.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace tensorbus::platform {
namespace {

constexpr std::size_t kLine = 64;

std::vector<std::byte> pattern(std::size_t bytes) {
  std::vector<std::byte> all(bytes);
  for (std::size_t i = 0; i < bytes; ++i) all[i] = static_cast<std::byte>(i * 7 + i / 251);
  return all;
}

// Copied by us, and by the standard library into a second piece of memory.
bool copies_like_memcpy(std::size_t target_at, std::size_t source_at, std::size_t bytes) {
  constexpr std::byte kUntouched{0xee};
  const std::vector<std::byte> source = pattern(source_at + bytes);
  std::vector<std::byte> ours(target_at + bytes + kLine, kUntouched);
  std::vector<std::byte> expected = ours;
  std::copy_n(source.data() + source_at, bytes, expected.data() + target_at);
  streaming_copy(ours.data() + target_at, source.data() + source_at, bytes);
  end_streaming();
  return ours == expected;
}

TEST(StreamingCopy, it_writes_what_memcpy_writes_and_nothing_beside_it) {
  for (std::size_t target_at = 0; target_at <= kLine; ++target_at)
    for (const std::size_t source_at : {0, 1, 8, 16, 63})
      for (const std::size_t bytes : {0, 1, 63, 64, 65, 511, 512, 513, 1000, 4096, 4159})
        ASSERT_TRUE(copies_like_memcpy(target_at, source_at, bytes))
            << target_at << " " << source_at << " " << bytes;
}

TEST(StreamingCopy, large_ones_are_whole) {
  for (const std::size_t bytes : {(1U << 20) - 1, 1U << 20, 5U << 20})
    EXPECT_TRUE(copies_like_memcpy(3, 5, bytes)) << bytes;
}

// What end_streaming() is for: without it, the word may be there before the bytes.
TEST(StreamingCopy, what_is_said_afterwards_is_seen_afterwards) {
  constexpr std::size_t kSize = 256 << 10;
  constexpr std::uint64_t kRounds = 2000;
  std::vector<std::uint64_t> source(kSize / 8);
  std::vector<std::uint64_t> target(kSize / 8);
  std::atomic<std::uint64_t> said{0};
  std::atomic<std::uint64_t> seen{0};
  std::uint64_t stale = 0;
  std::thread reader([&] {
    for (std::uint64_t round = 1; round <= kRounds; ++round) {
      while (said.load(std::memory_order_acquire) != round) std::this_thread::yield();
      stale += static_cast<std::uint64_t>(
          std::ranges::count_if(target, [&](std::uint64_t word) { return word != round; }));
      seen.store(round, std::memory_order_release);
    }
  });
  for (std::uint64_t round = 1; round <= kRounds; ++round) {
    std::ranges::fill(source, round);
    streaming_copy(reinterpret_cast<std::byte*>(target.data()),
                   reinterpret_cast<const std::byte*>(source.data()), kSize);
    end_streaming();
    said.store(round, std::memory_order_release);
    while (seen.load(std::memory_order_acquire) != round) std::this_thread::yield();
  }
  reader.join();
  EXPECT_EQ(stale, 0U);
}

}  // namespace
}  // namespace tensorbus::platform
