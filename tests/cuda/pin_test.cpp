// Host memory that a subscriber has pinned for GPUs (SubscriberOptions::pin).

#include "pins.hpp"
#include "tensorbus/device/transfer/pinned_blocks.hpp"
#include "tensorbus/platform/files/memfd.hpp"

namespace tensorbus {
namespace {

using namespace testing;

void publish(bus::Publisher& publisher, std::uint64_t seed, std::size_t elements = kElements) {
  bus::Loan loan = publisher.loan<std::uint64_t>({static_cast<std::int64_t>(elements)});
  write_pattern(words_of(loan), seed);
  ASSERT_EQ(publisher.publish(std::move(loan)).outcome, Outcome::kDone);
}

struct PinningReader {
  explicit PinningReader(const FreshDomain& domain, Access access = Access::kRead)
      : us(domain.join()), subscriber("frames", {.access = access, .pin = true}, us) {}
  bus::Sample next() {
    auto sample = subscriber.receive(kLong);
    EXPECT_TRUE(sample);
    return sample ? std::move(*sample) : bus::Sample();
  }

  bus::ParticipantRef us;
  bus::Subscriber subscriber;
};

struct HostWriter {
  explicit HostWriter(const FreshDomain& domain, PublisherOptions publishing = {},
                      ParticipantOptions joining = {})
      : us(domain.join(joining)), publisher("frames", publishing, us) {}
  void wait_for_reader() { EXPECT_EQ(publisher.wait_for_subscribers(1, kLong), Outcome::kDone); }

  bus::ParticipantRef us;
  bus::Publisher publisher;
};

TEST(CudaPins, received_blocks_are_pinned_once_and_stay_so_for_the_next_sample_there) {
  const FreshDomain domain;
  in_two_processes(
      [&](int wire) {
        HostWriter w(domain);
        w.wait_for_reader();
        for (std::uint64_t seed = 1; seed <= 10; ++seed) {
          publish(w.publisher, seed);
          wait_for(wire);
        }
        wait_for(wire);  // nothing of a writer that has gone stays pinned
      },
      [&](int wire) {
        PinningReader r(domain);
        for (std::uint64_t seed = 1; seed <= 10; ++seed) {
          {
            const bus::Sample sample = r.next();
            EXPECT_TRUE(is_pinned(sample.tensor()));
            EXPECT_EQ(seed_of(words_of(sample.tensor())), seed);
          }
          tell(wire);
        }
        EXPECT_LE(pins(), 3U);
        EXPECT_GT(pins(), 0U);
        r.subscriber.close();
        EXPECT_EQ(pins(), 0U);
        tell(wire);
      });
}

TEST(CudaPins, small_tensors_are_received_as_they_are) {
  const FreshDomain domain;
  in_process([&] {
    HostWriter w(domain);
    PinningReader r(domain);
    w.wait_for_reader();
    publish(w.publisher, 1, 100);
    EXPECT_FALSE(is_pinned(r.next().tensor()));
  });
}

TEST(CudaPins, what_can_be_written_by_all_is_pinned_too) {
  const FreshDomain domain;
  in_process([&] {
    HostWriter w(domain, {.shared = true});
    PinningReader r(domain, Access::kShared);
    w.wait_for_reader();
    publish(w.publisher, 1);
    EXPECT_TRUE(is_pinned(r.next().tensor()));
  });
}

TEST(CudaPins, blocks_that_are_carved_anew_are_pinned_anew) {
  const FreshDomain domain;
  in_process([&] {
    HostWriter w(domain);
    PinningReader r(domain);
    w.wait_for_reader();
    for (const std::size_t parts : {1U, 2U, 3U, 1U, 4U}) {
      publish(w.publisher, parts, kElements * parts);
      const bus::Sample sample = r.next();
      EXPECT_TRUE(is_pinned(sample.tensor()));
      EXPECT_EQ(seed_of(words_of(sample.tensor())), parts);
    }
  });
}

// Its pages would be others than those that a GPU reads.
TEST(CudaPins, a_block_is_not_punched_before_it_is_unpinned) {
  const FreshDomain domain;
  in_two_processes(
      [&](int wire) {
        HostWriter w(domain, {}, {.warm_bytes = 0});  // what is free is punched at once
        w.wait_for_reader();
        publish(w.publisher, 1);
        wait_for(wire);  // it has let go
        EXPECT_TRUE(eventually([&] {
          (void)w.publisher.stats();
          return w.us->memory_use().used_bytes == 0;
        }));
        EXPECT_GE(w.us->memory_use().reserved_bytes, kElements * 8);
        publish(w.publisher, 2);
        wait_for(wire);  // it has closed
        EXPECT_TRUE(eventually([&] {
          (void)w.publisher.stats();
          return w.us->memory_use().reserved_bytes < kElements * 8;
        }));
        tell(wire);
      },
      [&](int wire) {
        PinningReader r(domain);
        {
          const bus::Sample sample = r.next();
          EXPECT_TRUE(is_pinned(sample.tensor()));
        }
        tell(wire);
        {
          const bus::Sample sample = r.next();
          EXPECT_TRUE(is_pinned(sample.tensor()));
          EXPECT_EQ(seed_of(words_of(sample.tensor())), 2U);
          r.subscriber.close();
          EXPECT_TRUE(is_pinned(sample.tensor())) << "while it is held";
        }
        EXPECT_EQ(pins(), 0U);
        tell(wire);
        wait_for(wire);
      });
}

TEST(CudaPins, those_of_a_process_that_dies_are_punched) {
  const FreshDomain domain;
  while_the_first_is_killed(
      [&](int wire) {
        PinningReader r(domain);
        const bus::Sample sample = r.next();
        EXPECT_TRUE(is_pinned(sample.tensor()));
        tell(wire);
        wait_for(wire);
        ::raise(SIGKILL);
      },
      [&](int wire) {
        HostWriter w(domain, {}, {.warm_bytes = 0});
        w.wait_for_reader();
        publish(w.publisher, 1);
        wait_for(wire);
        tell(wire);
        EXPECT_TRUE(eventually([&] {
          (void)w.publisher.stats();
          return w.us->memory_use().reserved_bytes < kElements * 8;
        }));
      });
}

TEST(CudaPins, stay_with_a_sample_whose_publisher_died) {
  const FreshDomain domain;
  while_the_first_is_killed(
      [&](int wire) {
        HostWriter w(domain);
        w.wait_for_reader();
        publish(w.publisher, 7);
        publish(w.publisher, 8);
        wait_for(wire);
        ::raise(SIGKILL);
      },
      [&](int wire) {
        PinningReader r(domain);
        const bus::Sample sample = r.next();
        EXPECT_EQ(r.subscriber.stats().publishers, 1U);
        tell(wire);
        EXPECT_TRUE(eventually([&] { return r.subscriber.stats().publishers == 0; }));
        EXPECT_TRUE(is_pinned(sample.tensor()));
        EXPECT_EQ(seed_of(words_of(sample.tensor())), 7U);
        EXPECT_EQ(seed_of(words_of(r.next().tensor())), 8U) << "pinned or not";
        r.subscriber.close();
      });
}

TEST(CudaPins, and_the_connection_go_with_a_publisher_that_leaves) {
  const FreshDomain domain;
  in_process([&] {
    PinningReader r(domain);
    const std::size_t before = pins();
    std::size_t descriptors = 0;
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      {
        HostWriter w(domain);
        w.wait_for_reader();
        publish(w.publisher, seed);
        EXPECT_TRUE(is_pinned(r.next().tensor()));
      }
      EXPECT_TRUE(eventually([&] { return pins() == before; })) << pins();
      EXPECT_FALSE(r.subscriber.try_receive());
      if (seed == 1) descriptors = open_descriptors();
    }
    EXPECT_TRUE(eventually([&] { return open_descriptors() <= descriptors; }))
        << open_descriptors() << " of " << descriptors;
  });
}

// Nobody comes for the second grant any more.
TEST(CudaPins, of_one_block_that_was_asked_for_twice_are_granted_once) {
  in_process([&] {
    constexpr std::size_t kBytes = 1 << 17;
    constexpr std::size_t kHalfOf = kBytes / 2;
    const platform::Fd memfd = platform::create_sealed_memfd("test", kBytes);
    const auto mapping = std::make_shared<const platform::Mapping>(
        memfd.get(), kBytes, platform::Mapping::Access::kReadWrite);
    const memory::Range whole{0, kBytes};
    const device::PinnedBlocks::Wanted first{{0, 0, 1}, {0, kHalfOf}, mapping};
    const device::PinnedBlocks::Wanted second{{0, kHalfOf, 1}, {kHalfOf, kBytes}, mapping};
    const device::PinnedBlocks::Wanted third{{0, kHalfOf + 1, 1}, {kHalfOf + 1, kBytes}, mapping};
    const auto blocks = std::make_shared<device::PinnedBlocks>();
    std::size_t released = 0;
    blocks->report_by([&](memory::SegmentId, memory::Range) { ++released; });
    blocks->subscribe();
    using State = device::PinnedBlocks::State;
    for (const auto* wanted : {&first, &second, &third})
      EXPECT_EQ(blocks->find(*wanted).state, State::kAsk);
    blocks->answer(first.block, whole);
    blocks->answer(second.block, whole);
    EXPECT_EQ(blocks->find(first).state, State::kPinned);
    EXPECT_EQ(blocks->find(second).state, State::kPinned);
    EXPECT_EQ(blocks->find(third).state, State::kPinned);
    EXPECT_EQ(released, 1U);
    blocks->answer(third.block, whole);  // too late
    EXPECT_EQ(released, 2U);
    blocks->unsubscribe();
    EXPECT_EQ(released, 3U);
  });
}

// To the driver half a tensor that is pinned is an error.
TEST(CudaPins, that_nobody_uses_hold_no_half_of_a_small_tensor) {
  const FreshDomain domain;
  in_process([&] {
    HostWriter w(domain);
    PinningReader r(domain);
    w.wait_for_reader();
    publish(w.publisher, 1);
    EXPECT_TRUE(is_pinned(r.next().tensor()));
    EXPECT_TRUE(eventually([&] {
      (void)w.publisher.stats();
      return w.us->memory_use().used_bytes == 0;
    }));
    std::vector<bus::Sample> held;
    for (std::uint64_t seed = 2; seed < 8; ++seed) {
      publish(w.publisher, seed, 50 * 1024 / 8);
      held.push_back(r.next());
      const bus::Tensor& tensor = held.back().tensor();
      EXPECT_EQ(is_pinned(tensor.data()), is_pinned(tensor.data() + 50 * 1024 - 1)) << seed;
      EXPECT_EQ(seed_of(words_of(tensor)), seed);
    }
  });
}

TEST(CudaPins, are_bounded_when_nobody_uses_them) {
  const FreshDomain domain;
  in_process([&] {
    HostWriter w(domain, {.depth = 64});
    PinningReader r(domain);
    w.wait_for_reader();
    const std::size_t before = pins();
    std::vector<bus::Sample> held;
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
      publish(w.publisher, seed);
      held.push_back(r.next());
      EXPECT_TRUE(is_pinned(held.back().tensor()));
    }
    EXPECT_EQ(pins() - before, 40U);
    held.clear();
    publish(w.publisher, 1, 5 * kElements);  // the next that is pinned
    held.push_back(r.next());
    EXPECT_LE(pins() - before, 33U);
  });
}

TEST(CudaPins, that_the_driver_refuses_are_asked_for_again_later) {
  const FreshDomain domain;
  in_process([&] {
    HostWriter w(domain);
    PinningReader r(domain);
    w.wait_for_reader();
    const auto next = [&](std::uint64_t seed) {
      publish(w.publisher, seed);
      bus::Sample sample = r.next();
      EXPECT_EQ(seed_of(words_of(sample.tensor())), seed);
      return sample;
    };
    const std::size_t before = standin_calls("cuMemHostRegister_v2");
    standin_fail("cuMemHostRegister_v2", 0, static_cast<int>(standin::Result::kOutOfMemory));
    for (std::uint64_t seed = 0; seed < 100; ++seed) EXPECT_FALSE(is_pinned(next(seed).tensor()));
    EXPECT_LT(standin_calls("cuMemHostRegister_v2") - before, 10U) << "each sample waited for it";
    standin_fail("cuMemHostRegister_v2", 0, static_cast<int>(standin::Result::kSuccess));
    EXPECT_TRUE(eventually([&] { return is_pinned(next(7).tensor()); }));
  });
}

TEST(CudaPins, that_cannot_be_had_are_refused_at_once) {
  const FreshDomain domain;
  const auto subscribe = [&](SubscriberOptions options) {
    return code_of([&] { const bus::Subscriber subscriber("frames", options, domain.join()); });
  };
  in_process([&] {
    EXPECT_EQ(subscribe({.access = Access::kPrivate, .pin = true}), Code::kInvalidArgument);
  });
  for (const Environment& without :
       {Environment{{"TENSORBUS_CUDA_DRIVER", "off"}},
        Environment{{"STANDIN_WITHOUT", "read_only_pins"}}, Environment{{"STANDIN_DEVICES", "0"}}})
    in_process(without, [&] { EXPECT_EQ(subscribe({.pin = true}), Code::kUnsupported); });
}

}  // namespace
}  // namespace tensorbus
