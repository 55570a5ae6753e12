// Memory of pools that comes and goes, and readers that make it difficult.

#include <algorithm>
#include <future>
#include <vector>

#include "foreign.hpp"
#include "tensorbus/device/order/deferred_releaser.hpp"

namespace tensorbus {
namespace {

using namespace testing;

constexpr std::uint64_t kEnough = 200;

// Of these, so many are not free yet.
std::ptrdiff_t kept(const std::vector<Foreign>& all) {
  return std::ranges::count_if(all, [](const Foreign& one) { return !one.freed(); });
}

// Reads what comes until the pattern of this seed has come.
void read_until(Reader& r, std::uint64_t last) {
  for (std::uint64_t seed = 0; seed < last;) {
    const bus::Sample sample = r.next();
    const Found found = read_on(r.stream, sample.tensor());
    r.stream.synchronize();
    ASSERT_TRUE(*found);
    EXPECT_GT(**found, seed);
    seed = **found;
  }
}

// One allocation, which somebody always has, or nobody has now and then.
TEST(CudaPoolTraffic, of_one_allocation_that_is_published_again_and_again_does_not_grow) {
  for (const bool in_step : {false, true}) {
    const FreshDomain domain;
    in_two_processes(
        [&](int wire) {
          Writer w(domain, 0, {.depth = 2, .reliable = true});
          w.wait_for_reader();
          Foreign memory = Foreign::pooled(8 * kBytes, new_pool(), w.stream.get());
          std::size_t descriptors = 0;
          for (std::uint64_t seed = 1; seed <= kEnough; ++seed) {
            const std::size_t place = seed % 4 * kBytes;
            publish(w, memory, seed, place);
            if (in_step) wait_for(wire);
            if (seed == kEnough / 2) descriptors = open_descriptors();
          }
          EXPECT_LT(open_descriptors(), descriptors + 10);
          EXPECT_EQ(w.publisher.stats().bytes_copied, 0U);
          wait_for(wire);
          memory.let_go();
          EXPECT_TRUE(eventually([&] { return memory.freed(); }));
          tell(wire);
        },
        [&](int wire) {
          Reader r(domain);
          for (std::uint64_t seed = 1; in_step && seed <= kEnough; ++seed) {
            expect_next(r, seed);
            tell(wire);
          }
          if (!in_step)
            for (std::uint64_t seed = 1; seed <= kEnough; ++seed) (void)r.next();
          tell(wire);
          wait_for(wire);
          EXPECT_EQ(standin_open_mappings(), 0U);
        });
  }
}

TEST(CudaPoolTraffic, of_a_thousand_allocations_does_not_grow) {
  constexpr std::uint64_t kMany = 1000;
  const FreshDomain domain;
  in_two_processes(
      [&](int wire) {
        Writer w(domain, 0, {.depth = 4, .reliable = true});
        w.wait_for_reader();
        const standin::MemoryPool pool = new_pool();
        std::vector<Foreign> all;
        std::ptrdiff_t most = 0;
        for (std::uint64_t seed = 1; seed <= kMany; ++seed) {
          all.push_back(Foreign::pooled(kBytes, pool, w.stream.get()));
          publish(w, all.back(), seed);
          all.back().let_go();
          most = std::max(most, kept(all));
        }
        EXPECT_LT(most, static_cast<std::ptrdiff_t>(kMany) * 9 / 10)
            << "they are given back as it goes";
        EXPECT_LT(w.publisher.stats().bytes_copied, kMany * kBytes);
        wait_for(wire);
        EXPECT_TRUE(eventually([&] { return kept(all) == 0; }));
        tell(wire);
      },
      [&](int wire) {
        Reader r(domain);
        read_until(r, kMany);
        tell(wire);
        wait_for(wire);
        EXPECT_EQ(standin_imported_pools(), 0U);
      });
}

// It takes and returns samples, and does not say that it has closed anything.
TEST(CudaPoolTraffic, of_a_reader_that_closes_nothing_is_bounded_and_then_copied) {
  constexpr std::uint64_t kMany = 300;
  const FreshDomain domain;
  in_two_processes(
      [&](int wire) {
        Writer w(domain);
        w.wait_for_reader();
        const standin::MemoryPool pool = new_pool();
        std::vector<Foreign> all;
        for (std::uint64_t seed = 1; seed <= kMany; ++seed) {
          all.push_back(Foreign::pooled(kBytes, pool, w.stream.get()));
          publish(w, all.back(), seed);
          all.back().let_go();
          wait_for(wire);
        }
        const std::uint64_t copied = w.publisher.stats().bytes_copied;
        EXPECT_GT(copied, 0U);
        EXPECT_TRUE(eventually([&] { return kept(all) * kBytes + copied <= kMany * kBytes; }));
        EXPECT_GE(kept(all), 128);
        tell(wire);
        EXPECT_TRUE(eventually([&] { return kept(all) == 0; }));
        const Foreign next = Foreign::pooled(kBytes, pool, w.stream.get());
        publish(w, next, kMany + 1);
        EXPECT_EQ(w.publisher.stats().bytes_copied, copied);
        tell(wire);
        wait_for(wire);
      },
      [&](int wire) {
        Reader r(domain);
        std::promise<void> go_on;
        const auto wait = [until = go_on.get_future().share()](const void*) { until.wait(); };
        expect_next(r, 1);  // CUDA is in use now, and what is let go of has an end
        tell(wire);
        device::DeferredReleaser::Kept blocks;
        blocks.emplace_back(&go_on, wait);
        device::DeferredReleaser::let_go(std::move(blocks));
        for (std::uint64_t seed = 2; seed <= kMany; ++seed) {
          expect_next(r, seed);
          tell(wire);
        }
        wait_for(wire);
        EXPECT_GE(standin_open_mappings(), 128U);
        go_on.set_value();
        wait_for(wire);
        expect_next(r, kMany + 1);
        tell(wire);
      });
}

}  // namespace
}  // namespace tensorbus
