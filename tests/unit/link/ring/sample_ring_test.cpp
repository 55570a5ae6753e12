#include "tensorbus/link/ring/sample_ring.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <thread>
#include <tuple>
#include <vector>

namespace tensorbus::link {
namespace {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr std::uint64_t kRaces = 100'000;
#else
constexpr std::uint64_t kRaces = 1'500'000;
#endif

Entry entry_of(std::uint64_t position) {
  Entry entry;
  entry.sequence = position;
  entry.timestamp_ns = ~position;
  entry.token = position * 3;
  entry.length = kInlineBytes;
  entry.fingerprint = position * 0x9e3779b97f4a7c15ULL;
  std::memset(entry.inline_bytes.data(), static_cast<int>(position & 0xff), kInlineBytes);
  return entry;
}

bool same(const Entry& a, const Entry& b) { return std::memcmp(&a, &b, sizeof a) == 0; }

class Ring {
 public:
  explicit Ring(std::size_t slots)
      : slots_(new Slot[slots]()),
        writer_({slots_.get(), slots}),
        reader_({slots_.get(), slots}),
        count_(slots) {}
  void push(std::uint64_t position) { writer_.push(position, entry_of(position)); }
  bool drop(std::uint64_t position) { return writer_.drop(position); }
  bool taken(std::uint64_t position) { return writer_.is_taken(position); }
  bool ready() { return reader_.ready(); }
  bool broken() { return reader_.broken(); }
  // The position that was popped, -1 for none, -2 for a torn entry.
  std::int64_t pop() {
    Entry entry;
    if (!reader_.pop(entry)) return -1;
    return same(entry, entry_of(entry.sequence)) ? static_cast<std::int64_t>(entry.sequence) : -2;
  }
  std::optional<std::uint64_t> stop() { return reader_.stop_at_newest(); }
  Slot& slot(std::size_t i) { return slots_[i]; }
  std::size_t size() const { return count_; }

 private:
  std::unique_ptr<Slot[]> slots_;
  SampleRingWriter writer_;
  SampleRingReader reader_;
  std::size_t count_;
};

TEST(SampleRing, an_empty_ring_has_nothing_to_pop) {
  Ring ring(4);
  EXPECT_FALSE(ring.ready());
  EXPECT_EQ(ring.pop(), -1);
}

TEST(SampleRing, entries_come_out_in_the_order_they_went_in) {
  Ring ring(4);
  for (std::uint64_t base = 0; base < 40; base += 4) {
    for (std::uint64_t i = 0; i < 4; ++i) ring.push(base + i);
    for (std::uint64_t i = 0; i < 4; ++i) {
      EXPECT_TRUE(ring.ready());
      EXPECT_FALSE(ring.taken(base + i));
      EXPECT_EQ(ring.pop(), static_cast<std::int64_t>(base + i));
      EXPECT_TRUE(ring.taken(base + i));
    }
    EXPECT_EQ(ring.pop(), -1);
  }
}

TEST(SampleRing, what_was_popped_cannot_be_dropped) {
  Ring ring(2);
  ring.push(0);
  ASSERT_EQ(ring.pop(), 0);
  EXPECT_FALSE(ring.drop(0));
}

TEST(SampleRing, what_was_dropped_is_skipped) {
  Ring ring(4);
  for (std::uint64_t p = 0; p < 4; ++p) ring.push(p);
  EXPECT_TRUE(ring.drop(0));
  EXPECT_TRUE(ring.drop(1));
  EXPECT_EQ(ring.pop(), 2);
  EXPECT_EQ(ring.pop(), 3);
  EXPECT_EQ(ring.pop(), -1);
}

TEST(SampleRing, a_ring_of_dropped_entries_is_empty) {
  Ring ring(4);
  for (std::uint64_t p = 0; p < 4; ++p) ring.push(p);
  for (std::uint64_t p = 0; p < 4; ++p) EXPECT_TRUE(ring.drop(p));
  EXPECT_EQ(ring.pop(), -1);
  EXPECT_FALSE(ring.ready());
}

TEST(SampleRing, a_reader_that_was_overtaken_many_times_finds_the_oldest_that_is_left) {
  for (const std::size_t slots : {1U, 2U, 8U}) {
    Ring ring(slots);
    std::uint64_t next = 0;
    for (; next < 5 * slots + 1; ++next) {
      const bool has_room = next < slots || ring.drop(next - slots);
      EXPECT_TRUE(has_room);
      ring.push(next);
    }
    for (std::uint64_t p = next - slots; p < next; ++p)
      EXPECT_EQ(ring.pop(), static_cast<std::int64_t>(p)) << slots << " slots";
    EXPECT_EQ(ring.pop(), -1);
  }
}

TEST(SampleRing, a_reader_that_stops_pops_what_is_there_and_nothing_that_comes_later) {
  Ring ring(4);
  for (std::uint64_t p = 0; p < 3; ++p) ring.push(p);
  ASSERT_EQ(ring.pop(), 0);
  EXPECT_EQ(ring.stop(), 2U);
  for (std::uint64_t p = 3; p < 5; ++p) ring.push(p);
  EXPECT_EQ(ring.pop(), 1);
  EXPECT_TRUE(ring.ready());
  EXPECT_EQ(ring.pop(), 2);
  EXPECT_FALSE(ring.ready());
  EXPECT_EQ(ring.pop(), -1);
  EXPECT_FALSE(ring.taken(3));
}

TEST(SampleRing, a_reader_that_stops_and_is_overtaken_pops_nothing_that_came_later) {
  Ring ring(4);
  for (std::uint64_t p = 0; p < 2; ++p) ring.push(p);
  EXPECT_EQ(ring.stop(), 1U);
  for (std::uint64_t p = 2; p < 11; ++p) {
    EXPECT_TRUE(p < 4 || ring.drop(p - 4));
    ring.push(p);
  }
  EXPECT_EQ(ring.pop(), -1);
  EXPECT_FALSE(ring.ready());
}

TEST(SampleRing, a_reader_that_stops_at_an_empty_ring_pops_nothing) {
  Ring ring(2);
  ring.push(0);
  ASSERT_EQ(ring.pop(), 0);
  EXPECT_FALSE(ring.stop());
  ring.push(1);
  EXPECT_EQ(ring.pop(), -1);
}

TEST(SampleRing, only_the_bytes_that_are_in_use_cross) {
  Ring ring(2);
  ring.push(0);
  ASSERT_EQ(ring.pop(), 0);
  const std::unique_ptr<Slot[]> slots(new Slot[1]());
  SampleRingWriter writer({slots.get(), 1});
  SampleRingReader reader({slots.get(), 1});
  Entry entry = entry_of(0);
  entry.length = 9;
  writer.push(0, entry);
  EXPECT_EQ(slots[0].words[7 + 2].load(), 0U);
  Entry got;
  ASSERT_TRUE(reader.pop(got));
  EXPECT_EQ(std::memcmp(got.inline_bytes.data(), entry.inline_bytes.data(), 9), 0);
}

// Pop and drop race for every position of a ring that is nearly always full.
class SampleRingRace : public ::testing::TestWithParam<std::tuple<std::size_t, std::uint64_t>> {};

TEST_P(SampleRingRace, each_position_is_got_exactly_once_by_pop_or_by_drop) {
  const auto [slots, depth] = GetParam();
  Ring ring(slots);
  std::vector<std::uint8_t> popped(kRaces);
  std::vector<std::uint8_t> dropped(kRaces);
  std::atomic<bool> done{false};
  std::uint64_t torn = 0;
  std::uint64_t out_of_order = 0;
  std::thread borrower([&] {
    std::int64_t last = -1;
    for (bool finished = false;;) {
      const std::int64_t position = ring.pop();
      if (position >= 0) {
        ++popped[static_cast<std::size_t>(position)];
        out_of_order += position <= last ? 1 : 0;
        last = position;
      } else if (position == -2) {
        ++torn;
      } else if (finished) {
        return;
      } else {
        finished = done.load(std::memory_order_acquire);
      }
    }
  });
  std::uint64_t oldest = 0;
  for (std::uint64_t next = 0; next < kRaces; ++next) {  // as OwnerLink does
    while (next - oldest >= depth && ring.taken(oldest)) ++oldest;
    if (next - oldest >= depth) {
      dropped[oldest] += ring.drop(oldest) ? 1 : 0;
      ++oldest;
    }
    ring.push(next);
  }
  done.store(true, std::memory_order_release);
  borrower.join();
  EXPECT_EQ(torn, 0U);
  EXPECT_EQ(out_of_order, 0U);
  std::uint64_t wrong = 0;
  for (std::uint64_t p = 0; p < kRaces; ++p) wrong += popped[p] + dropped[p] == 1 ? 0 : 1;
  EXPECT_EQ(wrong, 0U);
}

INSTANTIATE_TEST_SUITE_P(Sizes, SampleRingRace,
                         ::testing::Values(std::tuple(1, 1), std::tuple(2, 2), std::tuple(4, 3),
                                           std::tuple(64, 64)));

TEST(HostileRing, pop_ends_and_does_no_harm_whatever_the_words_are) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 20'000; ++round) {
    Ring ring(std::size_t{1} << (random() % 5));
    for (std::size_t i = 0; i < ring.size(); ++i) {
      // Small, large, and everything between: states near the reader's position matter most.
      ring.slot(i).state = random() >> (random() % 64);
      for (auto& word : ring.slot(i).words) word = random();
    }
    for (int pops = 0; pops < 20; ++pops) {
      Entry entry;
      (void)ring.ready();
      (void)ring.pop();
    }
  }
}

TEST(HostileRing, is_ready_only_for_a_pop_that_finds_something_or_never_again) {
  constexpr std::uint64_t kTop = std::uint64_t{1} << 63;
  for (const std::size_t slots : {1U, 2U, 8U, 64U}) {
    for (const std::uint64_t state : {~std::uint64_t{0}, kTop, kTop + 1, kTop - 1, kTop / 2 + 1}) {
      Ring ring(slots);
      for (std::size_t i = 0; i < slots; ++i) ring.slot(i).state = state;
      std::size_t found = 0;
      while (found <= slots && ring.pop() != -1) ++found;
      EXPECT_LE(found, slots) << state;
      EXPECT_FALSE(ring.ready()) << state << " in " << slots << " slots";
    }
  }
  std::mt19937_64 random(4);
  for (int round = 0; round < 20'000; ++round) {
    Ring ring(std::size_t{1} << (random() % 5));
    for (std::size_t i = 0; i < ring.size(); ++i)  // of the right slot, as often as not
      ring.slot(i).state = random() % 2 == 0 ? random() >> (random() % 64)
                                             : 2 * (ring.size() * (random() % 64) + i) + 1;
    for (std::size_t pops = 0; pops <= ring.size() && ring.pop() != -1; ++pops) continue;
    EXPECT_FALSE(ring.ready());
  }
}

TEST(HostileRing, with_a_state_that_is_of_another_slot_is_read_no_more) {
  Ring ring(4);
  ring.push(0);
  ring.slot(1).state = 2 * 6 + 1;  // position 6 belongs in slot 2
  EXPECT_EQ(ring.pop(), 0);
  EXPECT_FALSE(ring.broken());
  EXPECT_EQ(ring.pop(), -1);
  EXPECT_TRUE(ring.broken());
  ring.push(1);
  EXPECT_FALSE(ring.ready());
  EXPECT_EQ(ring.pop(), -1);
}

TEST(HostileRing, pop_ends_while_the_words_change_under_it) {
  Ring ring(8);
  std::atomic<bool> done{false};
  std::thread hostile([&] {
    std::mt19937_64 random(2);
    while (!done.load(std::memory_order_relaxed)) {
      Slot& slot = ring.slot(random() % ring.size());
      slot.state = random() >> (random() % 64);
      for (auto& word : slot.words) word.store(random(), std::memory_order_relaxed);
    }
  });
  for (int pops = 0; pops < 300'000; ++pops) (void)ring.pop();
  done.store(true, std::memory_order_relaxed);
  hostile.join();
}

TEST(HostileRing, the_owner_survives_states_that_a_borrower_wrote) {
  std::mt19937_64 random(3);
  Ring ring(4);
  for (std::uint64_t p = 0; p < 10'000; ++p) {
    ring.push(p);
    ring.slot(random() % 4).state = random() >> (random() % 64);
    (void)ring.taken(p);
    (void)ring.drop(p);
  }
}

}  // namespace
}  // namespace tensorbus::link
