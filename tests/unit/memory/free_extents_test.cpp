#include "tensorbus/memory/free_extents.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

namespace tensorbus::memory {

bool operator==(const Extent& a, const Extent& b) {
  return a.segment == b.segment && a.offset == b.offset && a.bytes == b.bytes;
}
void PrintTo(const Extent& extent, std::ostream* out) {
  *out << extent.segment.number << ":[" << extent.offset << ", +" << extent.bytes << ")";
}

namespace {

using Extents = std::vector<Extent>;

Extents all_of(const FreeExtents& free) {
  Extents extents;
  free.from_the_end([&](const Extent& extent) {
    extents.insert(extents.begin(), extent);
    return true;
  });
  return extents;
}

// Takes an extent for good.
std::optional<Extent> taken(FreeExtents& free, std::size_t bytes) {
  const auto taken = free.take(bytes);
  return taken ? std::optional(taken->extent) : std::nullopt;
}

TEST(FreeExtents, have_nothing_to_give_at_first) {
  FreeExtents free;
  EXPECT_FALSE(taken(free, 1));
  EXPECT_FALSE(free.covers(0, 1));
}

TEST(FreeExtents, give_the_smallest_extent_that_is_large_enough) {
  FreeExtents free;
  free.add({0, 0, 100});
  free.add({0, 200, 30});
  free.add({1, 0, 50});
  EXPECT_EQ(taken(free, 40), (Extent{1, 0, 40}));
  EXPECT_EQ(taken(free, 30), (Extent{0, 200, 30}));
  EXPECT_EQ(taken(free, 60), (Extent{0, 0, 60}));
  EXPECT_FALSE(taken(free, 41));
  EXPECT_EQ(all_of(free), (Extents{{0, 60, 40}, {1, 40, 10}}));
}

TEST(FreeExtents, give_the_lowest_address_among_equals) {
  FreeExtents free;
  free.add({1, 0, 10});
  free.add({0, 50, 10});
  free.add({0, 20, 10});
  EXPECT_EQ(taken(free, 10), (Extent{0, 20, 10}));
  EXPECT_EQ(taken(free, 10), (Extent{0, 50, 10}));
  EXPECT_EQ(taken(free, 10), (Extent{1, 0, 10}));
}

TEST(FreeExtents, merge_neighbours_in_any_order_but_not_across_segments) {
  const Extents parts{{0, 0, 10}, {0, 10, 10}, {0, 20, 10}};
  std::vector<int> order{0, 1, 2};
  do {
    FreeExtents free;
    free.add({1, 30, 10});
    for (const int i : order) free.add(parts[static_cast<std::size_t>(i)]);
    EXPECT_EQ(all_of(free), (Extents{{0, 0, 30}, {1, 30, 10}}));
    EXPECT_TRUE(free.covers(0, 30));
    EXPECT_FALSE(free.covers(0, 31));
    EXPECT_FALSE(free.covers(2, 0));
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(FreeExtents, forget_a_segment_altogether) {
  FreeExtents free;
  free.add({0, 0, 10});
  free.add({1, 0, 100});
  free.forget(1);
  free.forget(7);
  EXPECT_FALSE(taken(free, 11));
  EXPECT_EQ(all_of(free), (Extents{{0, 0, 10}}));
}

TEST(FreeExtents, are_walked_from_the_highest_address_down_until_told_to_stop) {
  FreeExtents free;
  for (const Extent& extent : Extents{{0, 0, 1}, {0, 10, 1}, {2, 0, 1}, {2, 10, 1}})
    free.add(extent);
  Extents seen;
  free.from_the_end([&](const Extent& extent) {
    seen.push_back(extent);
    return seen.size() < 3;
  });
  EXPECT_EQ(seen, (Extents{{2, 10, 1}, {2, 0, 1}, {0, 10, 1}}));
}

// One bit for each byte of each segment: the runs of free bytes are what FreeExtents must hold.
struct Model {
  std::map<SegmentId, std::vector<bool>> free;

  Extents runs() const {
    Extents runs;
    for (const auto& [segment, bytes] : free)
      for (std::size_t at = 0; at < bytes.size(); ++at) {
        if (!bytes[at]) continue;
        if (!runs.empty() && runs.back().segment == segment &&
            runs.back().offset + runs.back().bytes == at)
          ++runs.back().bytes;
        else
          runs.push_back({segment, at, 1});
      }
    return runs;
  }
  void set(const Extent& extent, bool value) {
    for (std::size_t i = 0; i < extent.bytes; ++i) free[extent.segment][extent.offset + i] = value;
  }
};

TEST(FreeExtents, do_what_one_bit_for_each_byte_would_do) {
  std::mt19937 random(2);
  for (int round = 0; round < 50; ++round) {
    FreeExtents free;
    Model model;
    std::vector<FreeExtents::Taken> taken;
    for (std::uint32_t segment = 0; segment < 3; ++segment) {
      model.free[segment].assign(64, true);
      free.add({segment, 0, 64});
    }
    for (int i = 0; i < 200; ++i) {
      if (random() % 2 == 0) {
        const std::size_t bytes = 1 + random() % 20;
        const Extents runs = model.runs();
        std::size_t best = 0;
        for (const Extent& run : runs)
          if (run.bytes >= bytes && (best == 0 || run.bytes < best)) best = run.bytes;
        auto found = free.take(bytes);
        ASSERT_EQ(found.has_value(), best != 0);
        if (!found) continue;
        const Extent* extent = &found->extent;
        const auto run = std::find_if(runs.begin(), runs.end(), [&](const Extent& candidate) {
          return candidate.segment == extent->segment && candidate.offset == extent->offset;
        });
        ASSERT_NE(run, runs.end());
        ASSERT_EQ(run->bytes, best);
        ASSERT_EQ(extent->bytes, bytes);
        model.set(*extent, false);
        taken.push_back(*std::move(found));
      } else if (!taken.empty()) {
        std::swap(taken[random() % taken.size()], taken.back());
        model.set(taken.back().extent, true);
        free.give_back(std::move(taken.back()));
        taken.pop_back();
      }
      ASSERT_EQ(all_of(free), model.runs());
    }
    for (auto& extent : taken) free.give_back(std::move(extent));
    for (std::uint32_t segment = 0; segment < 3; ++segment) EXPECT_TRUE(free.covers(segment, 64));
  }
}

}  // namespace
}  // namespace tensorbus::memory
