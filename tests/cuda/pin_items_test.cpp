// Host memory of items that an object of a queue has pinned for GPUs (QueueOptions::pin).

#include <poll.h>
#include <signal.h>

#include <functional>
#include <optional>
#include <set>
#include <vector>

#include "items.hpp"
#include "pins.hpp"
#include "tensorbus/bus/queue_client/item_pin.hpp"
#include "tensorbus/device/transfer/pinned_blocks.hpp"
#include "tensorbus/platform/files/memfd.hpp"

namespace tensorbus {
namespace {

using namespace testing;

constexpr std::chrono::milliseconds kPinPatience =
    std::chrono::duration_cast<std::chrono::milliseconds>(kLong);

void put(bus::Queue& queue, const bus::ParticipantRef& us, std::uint64_t seed,
         std::size_t elements = kElements) {
  const Layout layout = Layout::contiguous(DType::kUInt64, {static_cast<std::int64_t>(elements)});
  const bus::Loan loan = empty(layout, false, us);
  write_pattern(words_of(loan), seed);
  ASSERT_EQ(queue.put({{loan.view()}}, kLong), Outcome::kDone);
}

// Puts items, and then calls `wait` before its process leaves the domain.
void put_all(const FreshDomain& domain, std::uint64_t count, const std::function<void()>& wait) {
  const Client c(domain);
  bus::Queue queue = c.open();
  for (std::uint64_t seed = 1; seed <= count; ++seed) put(queue, c.us, seed);
  wait();
}

void expect_pinned(const bus::Sample& item, std::uint64_t seed) {
  EXPECT_TRUE(is_pinned(item.tensor())) << seed;
  EXPECT_EQ(seed_in(item.tensor()), seed);
}

bool is_readable(const bus::Queue::Pending& pending, std::chrono::milliseconds patience) {
  pollfd descriptor{pending.descriptor(), POLLIN, 0};
  return ::poll(&descriptor, 1, static_cast<int>(patience.count())) == 1;
}

// Takes the result of a request as an event loop does.
bus::Sample polled(bus::Queue::Pending pending) {
  bus::Sample item;
  Outcome outcome = Outcome::kTimedOut;
  while (outcome == Outcome::kTimedOut && is_readable(pending, kPinPatience))
    outcome = pending.take(item);
  EXPECT_EQ(outcome, Outcome::kDone);
  return item;
}

// The ways to get an item.
using Get = bus::Sample (*)(bus::Queue&);
struct Way {
  const char* name;
  Get get;
};
class CudaItemPinWays : public ::testing::TestWithParam<Way> {};
INSTANTIATE_TEST_SUITE_P(
    Cuda, CudaItemPinWays,
    ::testing::Values(Way{"blocking", next_item},
                      Way{"many",
                          [](bus::Queue& queue) {
                            std::vector<bus::Sample> items;
                            EXPECT_EQ(queue.get_many(items, 1, kLong), Outcome::kDone);
                            return std::move(items.front());
                          }},
                      Way{"polled", [](bus::Queue& queue) { return polled(queue.start_get()); }}),
    [](const auto& one) { return std::string(one.param.name); });

// With a server in a third process, the first items come by message and the others through a ring.
TEST_P(CudaItemPinWays, are_there_for_each_item_of_another_process) {
  constexpr std::uint64_t kCount = 20;
  const FreshDomain domain;
  const HostProcess host(domain);
  in_two_processes(
      [&](int wire) {
        const Client c(domain);
        bus::Queue queue = c.open();
        for (std::uint64_t seed = 1; seed <= kCount; ++seed) {
          put(queue, c.us, seed);
          wait_for(wire);
        }
        wait_for(wire);
      },
      [&](int wire) {
        const Client c(domain);
        {
          bus::Queue queue = c.open();
          queue.pin();
          for (std::uint64_t seed = 1; seed <= kCount; ++seed) {
            expect_pinned(GetParam().get(queue), seed);
            tell(wire);
          }
          EXPECT_GT(pins(), 0U);
        }
        EXPECT_EQ(pins(), 0U);
        tell(wire);
      });
}

TEST_P(CudaItemPinWays, are_there_in_the_process_that_made_the_queue) {
  constexpr std::uint64_t kCount = 20;
  const FreshDomain domain;
  in_two_processes([&](int wire) { put_all(domain, kCount, [&] { wait_for(wire); }); },
                   [&](int wire) {
                     const Client c(domain);
                     {
                       bus::Queue queue({.name = "items", .pin = true}, c.us);
                       EXPECT_TRUE(queue.options().pin);
                       for (std::uint64_t seed = 1; seed <= kCount; ++seed)
                         expect_pinned(GetParam().get(queue), seed);
                       EXPECT_GT(pins(), 0U);
                     }
                     EXPECT_EQ(pins(), 0U);
                     tell(wire);
                   });
}

TEST_P(CudaItemPinWays, are_there_for_items_of_the_process_itself) {
  const FreshDomain domain;
  in_process([&] {
    const Client c(domain);
    bus::Queue queue({.name = "items", .pin = true}, c.us);
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      put(queue, c.us, seed);
      expect_pinned(GetParam().get(queue), seed);
    }
  });
}

TEST(CudaItemPins, of_a_batch_come_all_at_once) {
  constexpr std::uint64_t kCount = 12;
  const FreshDomain domain;
  const HostProcess host(domain);
  in_two_processes(
      [&](int wire) {
        put_all(domain, kCount, [&] {
          tell(wire);
          wait_for(wire);
        });
      },
      [&](int wire) {
        const Client c(domain);
        bus::Queue queue = c.open();
        queue.pin();
        wait_for(wire);
        std::vector<bus::Sample> items;
        while (items.size() < kCount)
          ASSERT_EQ(queue.get_many(items, kCount - items.size(), kLong), Outcome::kDone);
        for (std::uint64_t seed = 1; seed <= kCount; ++seed) expect_pinned(items[seed - 1], seed);
        tell(wire);
      });
}

TEST(CudaItemPins, are_not_there_without_the_option_and_for_small_tensors) {
  const FreshDomain domain;
  in_process([&] {
    const Client c(domain);
    bus::Queue queue({.name = "items", .pin = true}, c.us);
    bus::Queue other = c.open();
    const std::size_t before = pins();
    put(queue, c.us, 1);
    EXPECT_FALSE(is_pinned(next_item(other).tensor()));
    put(queue, c.us, 2, 100);
    EXPECT_FALSE(is_pinned(next_item(queue).tensor()));
    EXPECT_EQ(pins(), before);
  });
}

// Two objects, and a subscriber, share the pins of one owner.
TEST(CudaItemPins, end_with_the_last_object_that_needs_them) {
  const FreshDomain domain;
  in_two_processes([&](int wire) { put_all(domain, 2, [&] { wait_for(wire); }); },
                   [&](int wire) {
                     const Client c(domain);
                     bus::Queue queue({.name = "items", .pin = true}, c.us);
                     {
                       bus::Queue other = c.open();
                       other.pin();
                       expect_pinned(next_item(other), 1);
                       expect_pinned(next_item(queue), 2);
                     }
                     EXPECT_GT(pins(), 0U);
                     tell(wire);
                   });
}

// Puts, and then stops itself until the test kills it. It is made before the process has threads:
// GCC 12's allocator under the address sanitizer may deadlock in the child of a process with some.
struct StoppedPutter {
  StoppedPutter(const FreshDomain& domain, std::uint64_t count)
      : child(start_process({}, [&domain, count] {
          const Client c(domain);
          bus::Queue queue = c.open();
          for (std::uint64_t seed = 1; seed <= count; ++seed) put(queue, c.us, seed);
          ::raise(SIGSTOP);
        })) {}
  ~StoppedPutter() {
    ::kill(child.pid(), SIGKILL);
    EXPECT_EQ(child.wait(), "signal 9");
  }
  void wait_until_stopped() const {
    siginfo_t seen{};
    EXPECT_EQ(::waitid(P_PID, static_cast<id_t>(child.pid()), &seen, WSTOPPED | WNOWAIT), 0);
  }
  standin::test::Child child;
};

// Its items wait for its reply once, and then for a second not any more.
TEST(CudaItemPins, of_a_process_that_is_stopped_are_not_waited_for_again_and_again) {
  constexpr std::uint64_t kCount = 40;
  const FreshDomain domain;
  in_process([&] {
    const StoppedPutter putter(domain, kCount);
    const Client c(domain);
    bus::Queue queue({.name = "items", .pin = true}, c.us);
    putter.wait_until_stopped();
    const auto begin = std::chrono::steady_clock::now();
    for (std::uint64_t seed = 1; seed <= kCount; ++seed) {
      const bus::Sample item = seed % 2 == 0 ? polled(queue.start_get()) : next_item(queue);
      EXPECT_FALSE(is_pinned(item.tensor()));
      EXPECT_EQ(seed_in(item.tensor()), seed);
    }
    // With a wait for each item it would take four seconds at least.
    EXPECT_LT(std::chrono::steady_clock::now() - begin, kCount / 2 * bus::ItemPin::kPatience);
  });
}

TEST(CudaItemPins, do_not_keep_an_item_that_nobody_waits_for_any_more) {
  const FreshDomain domain;
  in_process([&] {
    const StoppedPutter putter(domain, 1);
    const Client c(domain);
    bus::Queue queue({.name = "items", .pin = true}, c.us);
    putter.wait_until_stopped();
    {
      bus::Queue::Pending pending = queue.start_get();
      EXPECT_TRUE(is_readable(pending, kPinPatience));
      bus::Sample item;
      EXPECT_EQ(pending.take(item), Outcome::kTimedOut) << "its owner has not replied";
      EXPECT_FALSE(pending.answered());
    }
    EXPECT_TRUE(eventually([&] { return queue.stats().items == 1; })) << "cancelled";
    EXPECT_EQ(seed_in(next_item(queue).tensor()), 1U);
    EXPECT_EQ(queue.stats().lost, 0U);
  });
}

TEST(CudaItemPins, of_a_process_that_has_died_are_not_waited_for) {
  constexpr std::uint64_t kCount = 5;
  const FreshDomain domain;
  in_process([&] {
    std::optional<StoppedPutter> putter(std::in_place, domain, kCount);
    const Client c(domain);
    bus::Queue queue({.name = "items", .pin = true}, c.us);
    putter->wait_until_stopped();
    putter.reset();
    const std::size_t before = pins();
    for (std::uint64_t seed = 1; seed <= kCount; ++seed)
      EXPECT_EQ(seed_in(next_item(queue).tensor()), seed);
    EXPECT_EQ(pins(), before);
  });
}

TEST(CudaItemPins, come_with_impatient_gets_too_and_no_item_is_lost) {
  constexpr std::uint64_t kCount = 200;
  const FreshDomain domain;
  const HostProcess host(domain);
  in_two_processes([&](int wire) { put_all(domain, kCount, [&] { wait_for(wire); }); },
                   [&](int wire) {
                     const Client c(domain);
                     bus::Queue queue = c.open();
                     queue.pin();
                     std::multiset<std::uint64_t> seeds;
                     while (seeds.size() < kCount) {
                       bus::Sample item;
                       const auto timeout = std::chrono::microseconds(seeds.size() % 3 * 500);
                       if (queue.get(item, timeout) != Outcome::kDone) continue;
                       EXPECT_TRUE(is_pinned(item.tensor()));
                       seeds.insert(seed_in(item.tensor()).value_or(0));
                     }
                     EXPECT_EQ(seeds.size(), std::set(seeds.begin(), seeds.end()).size());
                     EXPECT_EQ(queue.stats().lost, 0U);
                     tell(wire);
                   });
}

TEST(CudaItemPins, that_cannot_be_had_are_refused_before_the_queue_is_made) {
  const FreshDomain domain;
  const auto refused = [&] {
    const Client c(domain);
    EXPECT_EQ(code_of([&] { const bus::Queue queue({.name = "items", .pin = true}, c.us); }),
              Code::kUnsupported);
    bus::Queue queue({.name = "items"}, c.us);
    bus::Queue other = c.open();
    EXPECT_EQ(code_of([&] { other.pin(); }), Code::kUnsupported);
    EXPECT_EQ(code_of([&] { (void)bus::Queue::at(queue.address(), {.pin = true}, c.us); }),
              Code::kUnsupported);
    put(queue, c.us, 1);
    EXPECT_EQ(seed_in(next_item(other).tensor()), 1U) << "as before";
    other.pin_later();
    put(other, c.us, 2);
    bus::Sample item;
    EXPECT_EQ(code_of([&] { (void)other.get(item, kLong); }), Code::kUnsupported);
    EXPECT_EQ(code_of([&] { (void)other.start_get(); }), Code::kUnsupported);
    EXPECT_EQ(queue.stats().items, 1U) << "no get has taken it";
  };
  for (const Environment& without :
       {Environment{{"TENSORBUS_CUDA_DRIVER", "off"}},
        Environment{{"STANDIN_WITHOUT", "read_only_pins"}}, Environment{{"STANDIN_DEVICES", "0"}}})
    in_process(without, refused);
  in_process([&] {
    const Client c(domain);
    bus::Queue queue({}, c.us);
    queue.receive_with(Access::kPrivate);
    EXPECT_EQ(code_of([&] { queue.pin(); }), Code::kInvalidArgument);
  });
}

TEST(PinnedBlocks, tell_once_that_a_reply_has_come_or_will_not) {
  in_process([&] {
    constexpr std::size_t kBytes = 1 << 17;
    const platform::Fd memfd = platform::create_sealed_memfd("test", kBytes);
    const auto mapping = std::make_shared<const platform::Mapping>(
        memfd.get(), kBytes, platform::Mapping::Access::kReadWrite);
    using State = device::PinnedBlocks::State;
    const device::PinnedBlocks::Wanted first{{0, 0, 1}, {0, kBytes}, mapping};
    const device::PinnedBlocks::Wanted second{{0, 0, 2}, {0, kBytes}, mapping};
    const auto blocks = std::make_shared<device::PinnedBlocks>();
    std::size_t released = 0;
    blocks->report_by([&](memory::SegmentId, memory::Range) { ++released; });
    blocks->subscribe();
    std::size_t told = 0;
    const auto tell = [&] { ++told; };
    blocks->on_answer(first.block, tell);
    EXPECT_EQ(told, 1U) << "nothing was asked";
    EXPECT_EQ(blocks->find(first).state, State::kAsk);
    blocks->on_answer(first.block, tell);
    blocks->on_answer(first.block, tell);
    EXPECT_EQ(told, 1U);
    blocks->answer(first.block, memory::Range{0, kBytes});
    EXPECT_EQ(told, 3U);
    blocks->withdraw(first.block);
    EXPECT_EQ(released, 1U) << "granted, and not wanted any more";
    EXPECT_EQ(blocks->find(first).state, State::kAsk);
    blocks->give_up(first.block);
    EXPECT_EQ(blocks->find(first).state, State::kNot) << "for a while";
    EXPECT_EQ(blocks->find(second).state, State::kNot) << "for a while";
    blocks->answer(first.block, memory::Range{0, kBytes});
    EXPECT_EQ(released, 2U) << "too late";
    EXPECT_TRUE(eventually([&] { return blocks->find(second).state == State::kAsk; }));
    blocks->on_answer(second.block, tell);
    blocks->owner_gone();
    EXPECT_EQ(told, 4U);
    EXPECT_EQ(blocks->find(second).state, State::kNot);
  });
}

}  // namespace
}  // namespace tensorbus
