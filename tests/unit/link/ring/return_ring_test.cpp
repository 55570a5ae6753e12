#include "tensorbus/link/ring/return_ring.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <limits>
#include <thread>
#include <vector>

namespace tensorbus::link {
namespace {

using Tokens = std::vector<std::uint64_t>;

class ReturnRing : public ::testing::Test {
 protected:
  // What came back; the last answer of drain() is in `sane`.
  Tokens drained() {
    Tokens tokens;
    sane = reader.drain([&](std::uint64_t token, std::uint64_t) { tokens.push_back(token); });
    return tokens;
  }

  ReturnWord tail{0};
  std::array<ReturnSlot, 4> slots{};
  ReturnRingWriter writer{&tail, slots};
  ReturnRingReader reader{&tail, slots};
  bool sane = true;
};

TEST_F(ReturnRing, tokens_come_back_in_order) {
  EXPECT_EQ(drained(), Tokens{});
  for (std::uint64_t base = 1; base < 100; base += 3) {
    for (std::uint64_t i = 0; i < 3; ++i) writer.push(base + i);
    EXPECT_EQ(drained(), (Tokens{base, base + 1, base + 2}));
    EXPECT_TRUE(sane);
  }
}

TEST_F(ReturnRing, tokens_that_go_together_come_together) {
  writer.push(1);
  writer.push(Tokens{2, 3});
  EXPECT_EQ(drained(), (Tokens{1, 2, 3}));
  writer.push(Tokens{4, 5, 6, 7});
  EXPECT_EQ(drained(), (Tokens{4, 5, 6, 7}));
}

TEST_F(ReturnRing, takes_as_many_as_it_has_slots) {
  for (std::uint64_t token = 1; token <= 4; ++token) writer.push(token);
  EXPECT_EQ(drained(), (Tokens{1, 2, 3, 4}));
}

TEST_F(ReturnRing, a_garbage_tail_is_noticed_and_gives_nothing_back) {
  writer.push(1);
  for (const std::uint64_t garbage :
       {std::uint64_t{5}, std::uint64_t{1} << 40, std::numeric_limits<std::uint64_t>::max()}) {
    tail = garbage;
    EXPECT_EQ(drained(), Tokens{}) << garbage;
    EXPECT_FALSE(sane);
  }
}

TEST_F(ReturnRing, a_tail_that_moves_back_is_noticed) {
  writer.push(1);
  writer.push(2);
  drained();
  tail = 1;
  EXPECT_EQ(drained(), Tokens{});
  EXPECT_FALSE(sane);
}

TEST_F(ReturnRing, garbage_tokens_are_handed_on_as_they_are) {
  slots[0].token = 0xdeadbeef;
  tail = 1;
  EXPECT_EQ(drained(), Tokens{0xdeadbeef});
  EXPECT_TRUE(sane);
}

TEST_F(ReturnRing, marks_come_back_with_their_tokens) {
  writer.push(7, 70);
  writer.push(8);
  std::vector<std::pair<std::uint64_t, std::uint64_t>> both;
  EXPECT_TRUE(reader.drain(
      [&](std::uint64_t token, std::uint64_t mark) { both.emplace_back(token, mark); }));
  EXPECT_EQ(both, (std::vector<std::pair<std::uint64_t, std::uint64_t>>{{7, 70}, {8, 0}}));
}

TEST_F(ReturnRing, nothing_is_lost_or_doubled_between_two_threads) {
  // Where others keep both cores, each yield may cost a time slice of theirs.
  constexpr std::uint64_t kTokens = 20'000;
  std::atomic<std::uint64_t> returned{0};
  std::thread borrower([&] {
    for (std::uint64_t token = 0; token < kTokens; ++token) {
      while (token - returned.load(std::memory_order_acquire) >= slots.size())
        std::this_thread::yield();  // the lease table would not have issued another
      writer.push(token);
    }
  });
  std::uint64_t expected = 0;
  std::uint64_t wrong = 0;
  while (expected < kTokens) {
    ASSERT_TRUE(reader.drain(
        [&](std::uint64_t token, std::uint64_t) { wrong += token == expected++ ? 0 : 1; }));
    returned.store(expected, std::memory_order_release);
    std::this_thread::yield();
  }
  borrower.join();
  EXPECT_EQ(wrong, 0U);
}

}  // namespace
}  // namespace tensorbus::link
