#include "tensorbus/link/ring/get_ring.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "tensorbus/platform/error.hpp"

namespace tensorbus::link {
namespace {

constexpr std::uint32_t kGetter = GetRingTaker::kFirstGetter;
constexpr std::uint32_t kOther = kGetter + 1;
using Look = GetRingReader::Look;

class GetRings : public ::testing::Test {
 protected:
  void lend(const std::string& text) {
    ++number;
    EXPECT_EQ(writer.lend(std::as_bytes(std::span(text)), number, number % 2 == 0), ++position);
  }
  static std::string take(GetRingReader& reader) {
    std::string text;
    std::uint64_t its_lease = 0;
    const auto taken = reader.take([&](std::span<const std::byte> bytes, std::uint64_t lease) {
      text.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      its_lease = lease;
      return Look::kReadable;
    });
    if (!taken) return "nothing";
    EXPECT_EQ(its_lease, taken->number % 2 == 0 ? taken->number : 0);
    return text + ":" + std::to_string(taken->number);
  }
  std::vector<std::uint32_t> collect() {
    std::vector<std::uint32_t> takers;
    for (; writer.lent() != 0 && writer.taker() != GetRingTaker::kFree; writer.pop())
      takers.push_back(writer.taker());
    return takers;
  }

  const GetRingSegment memory;
  const GetRingSegment mapped{memory.descriptor()};
  GetRingWriter writer{memory};
  GetRingReader getter{mapped, kGetter};
  GetRingReader other{mapped, kOther};
  std::uint64_t number = 0;
  std::uint64_t position = 0;
};

TEST_F(GetRings, items_go_to_whoever_comes_first) {
  EXPECT_EQ(take(getter), "nothing");
  lend("first");
  lend("");
  lend(std::string(GetRingSlot::kMaxBytes, 'x'));
  EXPECT_EQ(take(getter), "first:1");
  EXPECT_EQ(take(other), ":2");
  EXPECT_EQ(take(getter), std::string(GetRingSlot::kMaxBytes, 'x') + ":3");
  EXPECT_EQ(take(getter), "nothing");
  EXPECT_EQ(collect(), (std::vector{kGetter, kOther, kGetter}));
}

TEST_F(GetRings, it_goes_round) {
  for (int round = 0; round < 3; ++round) {
    while (writer.has_room()) lend(std::to_string(number));
    EXPECT_EQ(writer.lent(), GetRingSegment::kSlots);
    for (std::uint32_t i = 0; i < GetRingSegment::kSlots; ++i) {
      const std::uint64_t next = round * GetRingSegment::kSlots + i;
      EXPECT_EQ(take(i % 2 == 0 ? getter : other),
                std::to_string(next) + ":" + std::to_string(next + 1));
    }
    EXPECT_EQ(collect().size(), GetRingSegment::kSlots);
  }
}

TEST_F(GetRings, what_was_taken_back_is_nobodys) {
  for (const char* text : {"a", "b", "c"}) lend(text);
  EXPECT_EQ(take(getter), "a:1");
  std::vector<std::uint32_t> takers;
  writer.take_back([&](std::uint32_t taker) { takers.push_back(taker); });
  EXPECT_EQ(takers, std::vector{kGetter});
  EXPECT_EQ(take(getter), "nothing");
  lend("d");
  EXPECT_EQ(take(other), "d:4");
}

TEST_F(GetRings, the_oldest_can_be_taken_back_alone) {
  lend("a");
  lend("b");
  EXPECT_TRUE(writer.take_back_first());
  EXPECT_EQ(take(getter), "b:2");
  EXPECT_FALSE(writer.take_back_first());
  EXPECT_EQ(collect(), std::vector{kGetter});
}

TEST_F(GetRings, a_getter_that_throws_has_taken_nothing) {
  lend("a");
  EXPECT_THROW(getter.take([](std::span<const std::byte>, std::uint64_t) -> Look {
    throw Error(Code::kOutOfMemory, "no memory");
  }),
               Error);
  EXPECT_EQ(take(other), "a:1");
}

TEST_F(GetRings, what_nobody_can_read_is_nobodys) {
  lend("a");
  EXPECT_TRUE(
      getter.take([](std::span<const std::byte>, std::uint64_t) { return Look::kMalformed; }));
  EXPECT_EQ(collect(), std::vector{GetRingTaker::kServer});
  EXPECT_EQ(take(other), "nothing");
}

TEST_F(GetRings, what_is_out_of_reach_stays) {
  lend("a");
  lend("b");
  EXPECT_FALSE(
      getter.take([](std::span<const std::byte>, std::uint64_t) { return Look::kOutOfReach; }));
  EXPECT_EQ(collect(), std::vector<std::uint32_t>{});
  EXPECT_EQ(writer.first(), 1U);
  EXPECT_EQ(take(other), "a:1");
  EXPECT_EQ(collect(), std::vector{kOther});
  EXPECT_EQ(writer.first(), 2U);
}

TEST_F(GetRings, the_getter_that_leaves_so_many_wakes_the_server) {
  for (const char* text : {"a", "b", "c", "d"}) lend(text);
  const auto wakes = [&] {
    return getter.take([](std::span<const std::byte>, std::uint64_t) { return Look::kReadable; })
        ->wakes;
  };
  writer.wake_when_left(2);
  EXPECT_FALSE(wakes());
  EXPECT_TRUE(wakes());
  EXPECT_FALSE(wakes());
  writer.woken();
  writer.wake_when_left(3);  // they are fewer already
  EXPECT_TRUE(wakes());
}

TEST_F(GetRings, garbage_ends_nothing) {
  const std::uint64_t words[] = {0, 1, 77, ~std::uint64_t{0}, GetRingTaker{5, 9}.packed()};
  for (const std::uint64_t word : words) {
    lend("a");
    lend("b");
    for (GetRingSlot& slot : mapped.slots()) {
      slot.taker.store(word);
      slot.what.store(word);
    }
    mapped.header().taken.store(word);
    mapped.header().wake_at.store(word);
    (void)take(getter);
    (void)take(other);
    writer.wake_when_left(1);
    writer.take_back([](std::uint32_t taker) { EXPECT_NE(taker, GetRingTaker::kFree); });
    EXPECT_EQ(writer.lent(), 0U);
    mapped.header().taken.store(0);
    lend("c");
    writer.take_back([](std::uint32_t) {});
  }
}

TEST_F(GetRings, memory_of_another_size_is_refused) {
  EXPECT_THROW(GetRingSegment(platform::duplicate(STDIN_FILENO)), Error);
}

}  // namespace
}  // namespace tensorbus::link
