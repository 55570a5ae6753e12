// Items of queues, and shares, on a GPU: the thread that wants them is the one that uses it.

#include "items.hpp"

#include <poll.h>

namespace tensorbus {
namespace {

using namespace testing;

class CudaQueueServers : public ::testing::TestWithParam<Environment> {};
INSTANTIATE_TEST_SUITE_P(Cuda, CudaQueueServers,
                         ::testing::Values(Environment(), kOtherDevice, kNoDriver,
                                           Environment{{"CUDA_VISIBLE_DEVICES", ""}}));

TEST_P(CudaQueueServers, pass_tensors_on_by_reference_and_leave_the_gpu_alone) {
  const FreshDomain domain;
  const HostProcess host(domain, GetParam());
  in_two_processes(
      [&](int wire) {
        const Client c(domain);
        const TestStream stream(1);
        bus::Queue queue = c.open();
        for (std::uint64_t seed = 1; seed <= 20; ++seed) put_filled(queue, c.us, stream, seed, 1);
        wait_for(wire);
        EXPECT_EQ(standin_calls("cuMemcpyAsync"), 0U) << "nobody asked for a copy";
        EXPECT_TRUE(eventually([&] { return c.us->memory_use(Device::cuda(1)).used_bytes == 0; }));
        tell(wire);
      },
      [&](int wire) {
        const Client c(domain);
        const TestStream stream(1);
        bus::Queue queue = c.open();
        for (std::uint64_t seed = 1; seed <= 20; ++seed) {
          const bus::Sample item = next_item(queue);
          EXPECT_EQ(item.tensor().device(), Device::cuda(1));
          expect_on_device(stream, item.tensor(), seed);
        }
        tell(wire);
        wait_for(wire);
      });
}

TEST(CudaItems, are_waited_for_by_the_stream_that_reads_them) {
  const FreshDomain domain;
  const HostProcess host(domain, kNoDriver);
  in_two_processes(
      [&](int wire) {
        const Client c(domain);
        const TestStream stream;
        bus::Queue queue = c.open();
        stream.pause();
        put_filled(queue, c.us, stream, 7);
        wait_for(wire);
        stream.resume();
        wait_for(wire);
      },
      [&](int wire) {
        const Client c(domain);
        const TestStream stream;
        bus::Queue queue = c.open();
        const bus::Sample item = next_item(queue);
        const Found found = read_on(stream, item.tensor());
        EXPECT_FALSE(stream.idle());
        tell(wire);
        stream.synchronize();
        EXPECT_EQ(*found, 7U);
        tell(wire);
      });
}

TEST(CudaItems, and_shares_are_mapped_by_the_thread_that_wants_them) {
  const FreshDomain domain;
  in_two_processes(
      [&](int wire) {
        const Client c(domain);
        const TestStream stream;
        const bus::Loan loan = standing_loan(c.us, 0);
        const bus::Shared shared = share({{filled(loan, stream, 5)}}, {}, c.us);
        send_handle(wire, shared.handle());
        bus::Queue queue = c.open();
        put_filled(queue, c.us, stream, 6);
        wait_for(wire);
      },
      [&](int wire) {
        const Client c(domain);
        bus::Queue queue({.name = "items"}, c.us);  // its own client, too
        const TestStream stream;
        const bus::Sample attached = attach(receive_handle(wire), {.timeout = kLong}, c.us);
        expect_on_device(stream, attached.tensor(), 5);
        const bus::Sample item = next_item(queue);
        expect_on_device(stream, item.tensor(), 6);
        for (const char* symbol : {"cuInit", "cuDevicePrimaryCtxRetain", "cuMemMap"}) {
          EXPECT_GE(standin_calls_here(symbol), 1U);
          EXPECT_EQ(standin_calls_here(symbol), standin_calls(symbol)) << symbol;
        }
        tell(wire);
      });
}

bool is_readable(const bus::Queue::Pending& pending, std::chrono::milliseconds patience) {
  pollfd descriptor{pending.descriptor(), POLLIN, 0};
  return ::poll(&descriptor, 1, static_cast<int>(patience.count())) == 1;
}
constexpr std::chrono::milliseconds kPatience =
    std::chrono::duration_cast<std::chrono::milliseconds>(kLong);

// Puts an item that cannot be copied before it is told so.
void put_slowly(const FreshDomain& domain, int wire) {
  const Client c(domain);
  const TestStream stream;
  bus::Queue queue = c.open();
  stream.pause();
  put_filled(queue, c.us, stream, 5);
  tell(wire);
  wait_for(wire);
  stream.resume();
  wait_for(wire);
}

TEST(CudaItems, of_an_event_loop_are_announced_once_more_when_their_copy_has_come) {
  const FreshDomain domain;
  const HostProcess host(domain);
  in_two_processes([&](int wire) { put_slowly(domain, wire); },
                   [&](int wire) {
                     const Client c(domain);
                     bus::Queue queue = c.open();
                     wait_for(wire);
                     bus::Queue::Pending pending = queue.start_get();
                     EXPECT_TRUE(is_readable(pending, kPatience));
                     bus::Sample item;
                     EXPECT_EQ(pending.take(item), Outcome::kTimedOut);
                     EXPECT_FALSE(is_readable(pending, std::chrono::milliseconds(50)));
                     tell(wire);
                     EXPECT_TRUE(is_readable(pending, kPatience));
                     EXPECT_EQ(pending.take(item), Outcome::kDone);
                     EXPECT_EQ(seed_in(item.tensor()), 5U);
                     EXPECT_EQ(item.tensor().published_on(), Device::cuda(0));
                     tell(wire);
                   },
                   kNoDriver);
}

TEST(CudaItems, that_nobody_waits_for_any_more_go_back_without_their_copy) {
  const FreshDomain domain;
  const HostProcess host(domain);
  in_two_processes(
      [&](int wire) { put_slowly(domain, wire); },
      [&](int wire) {
        const Client c(domain);
        bus::Queue queue = c.open();
        wait_for(wire);
        bus::Sample item;
        {
          bus::Queue::Pending pending = queue.start_get();
          EXPECT_TRUE(is_readable(pending, kPatience));
          EXPECT_EQ(pending.take(item), Outcome::kTimedOut);
        }
        EXPECT_TRUE(eventually([&] { return queue.stats().items == 1; })) << "cancelled";
        EXPECT_EQ(queue.get(item, std::chrono::milliseconds(100)), Outcome::kTimedOut);
        EXPECT_TRUE(eventually([&] { return queue.stats().items == 1; })) << "out of time";
        EXPECT_EQ(queue.get(item, {kLong, [] { return true; }}), Outcome::kInterrupted);
        EXPECT_TRUE(eventually([&] { return queue.stats().items == 1; })) << "interrupted";
        tell(wire);
        EXPECT_EQ(seed_in(next_item(queue).tensor()), 5U);
        EXPECT_EQ(queue.stats().lost, 0U);
        tell(wire);
      },
      kNoDriver);
}

TEST(CudaItems, that_there_is_no_room_to_map_go_back) {
  const FreshDomain domain;
  const HostProcess host(domain);
  in_two_processes(
      [&](int wire) {
        const Client c(domain);
        const TestStream stream;
        bus::Queue queue = c.open();
        put_filled(queue, c.us, stream, 5);
        tell(wire);
        wait_for(wire);
      },
      [&](int wire) {
        const Client c(domain);
        const TestStream stream;
        bus::Queue queue = c.open();
        wait_for(wire);
        bus::Sample item;
        standin_fail("cuMemMap", 0, 2);
        EXPECT_EQ(code_of([&] { (void)queue.get(item, kLong); }), Code::kOutOfMemory);
        EXPECT_TRUE(eventually([&] { return queue.stats().items == 1; }));
        bus::Queue::Pending pending = queue.start_get();
        EXPECT_TRUE(is_readable(pending, kPatience));
        EXPECT_EQ(code_of([&] { (void)pending.take(item); }), Code::kOutOfMemory);
        EXPECT_TRUE(eventually([&] { return queue.stats().items == 1; }));
        standin_fail("cuMemMap", 0, 0);
        expect_on_device(stream, next_item(queue).tensor(), 5);
        tell(wire);
      });
}

TEST(CudaItems, of_a_share_that_comes_too_late_leave_no_lease_behind) {
  const FreshDomain domain;
  in_two_processes(
      [&](int wire) {
        const Client c(domain);
        const TestStream stream;
        stream.pause();
        {
          const bus::Loan loan = standing_loan(c.us, 0);
          const bus::Shared shared = share({{filled(loan, stream, 5)}}, {}, c.us);
          send_handle(wire, shared.handle());
          wait_for(wire);
        }
        stream.resume();
        stream.synchronize();
        EXPECT_TRUE(eventually([&] { return c.us->memory_use(Device::cuda()).used_bytes == 0; }));
        tell(wire);
      },
      [&](int wire) {
        const Client c(domain);
        const bus::Handle handle = receive_handle(wire);
        EXPECT_EQ(code_of([&] {
                    (void)attach(handle, {.timeout = std::chrono::milliseconds(100)}, c.us);
                  }),
                  Code::kTimeout);
        tell(wire);
        wait_for(wire);
      },
      kNoDriver);
}

}  // namespace
}  // namespace tensorbus
