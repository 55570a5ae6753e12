// Copies of device memory that fail, whose owner leaves, or whose receiver makes trouble.

#include <deque>

#include "no_gpu_reader.hpp"
#include "tensorbus/bus/domain/domain.hpp"
#include "tensorbus/device/memory/device_memory.hpp"
#include "tensorbus/platform/clock.hpp"
#include "tests/fakes/fake_peer.hpp"

namespace tensorbus {
namespace {

using namespace testing;

TEST(CudaStaging, without_pinned_memory_it_is_copied_all_the_same) {
  const FreshDomain domain;
  in_two_processes(
      [&](int wire) {
        Writer w(domain, 1);
        w.wait_for_reader();
        publish_on(w, 1, 4);
        wait_for(wire);
        standin_fail("cuMemHostRegister_v2", 0, 801);
        bus::Loan larger = w.publisher.loan<std::uint64_t>({8 * kWords}, Device::cuda(1));
        write_pattern(words_of(larger), 5);
        w.publisher.publish(std::move(larger), w.stream.get());
        wait_for(wire);
      },
      [&](int wire) {
        NoGpuReader b(domain);
        for (const std::uint64_t seed : {4U, 5U}) {
          EXPECT_EQ(seed_in(b.next().tensor()), seed);
          tell(wire);
        }
      },
      kNoDriver);
}

TEST(CudaStaging, a_copy_that_fails_is_a_sample_that_is_gone) {
  const FreshDomain domain;
  in_two_processes(
      [&](int wire) {
        Writer w(domain, 1);
        w.wait_for_reader();
        standin_fail("cuLaunchHostFunc", 0, 999);
        publish_on(w, 1, 4);
        wait_for(wire);
        standin_fail("cuLaunchHostFunc", 0, 0);
        publish_on(w, 1, 5);
        wait_for(wire);
      },
      [&](int wire) {
        NoGpuReader b(domain);
        EXPECT_TRUE(eventually([&] {
          EXPECT_FALSE(b.subscriber.try_receive());
          return b.subscriber.stats().gone == 1;
        }));
        tell(wire);
        EXPECT_EQ(seed_in(b.next().tensor()), 5U);
        tell(wire);
      },
      kNoDriver);
}

TEST(CudaStaging, who_dies_before_it_has_copied_leaves_nothing) {
  const FreshDomain domain;
  while_the_first_is_killed(
      [&](int wire) {
        Writer w(domain, 1);
        w.wait_for_reader();
        w.stream.pause();
        publish_on(w, 1, 5);
        wait_for(wire);
        ::raise(SIGKILL);
      },
      [&](int wire) {
        ::setenv("TENSORBUS_CUDA_DRIVER", "off", 1);
        NoGpuReader b(domain);
        EXPECT_EQ(b.subscriber.wait_for_publishers(1, kLong), Outcome::kDone);
        EXPECT_FALSE(b.subscriber.try_receive());
        tell(wire);
        EXPECT_TRUE(eventually([&] {
          EXPECT_FALSE(b.subscriber.try_receive());
          return b.subscriber.stats().gone == 1;
        }));
      });
}

TEST(CudaStaging, an_owner_that_leaves_while_it_copies_waits_for_nobody) {
  const FreshDomain domain;
  in_two_processes(
      [&](int wire) {
        const TestStream stream(1);
        std::optional<bus::ParticipantRef> us = domain.join();
        std::optional<bus::Publisher> publisher(std::in_place, "frames", PublisherOptions{}, *us);
        EXPECT_EQ(publisher->wait_for_subscribers(1, kLong), Outcome::kDone);
        const std::size_t before = standin_calls("cuMemcpyAsync");
        bus::Loan loan = loan_of(*publisher, 1);
        stream.pause();
        stream.launch([words = words_of(loan)] { write_pattern(words, 5); });
        publisher->publish(std::move(loan), stream.get());
        EXPECT_TRUE(eventually([&] { return standin_calls("cuMemcpyAsync") == before + 1; }));
        publisher.reset();
        us.reset();
        stream.resume();
        stream.synchronize();
        wait_for(wire);
      },
      [&](int wire) {
        NoGpuReader b(domain);
        EXPECT_TRUE(eventually([&] {
          EXPECT_FALSE(b.subscriber.try_receive());
          return b.subscriber.stats().gone == 1;
        }));
        tell(wire);
      },
      kNoDriver);
}

// What was enqueued still writes there.
TEST(CudaStaging, a_copy_that_fails_half_way_keeps_its_memory_until_it_has_run) {
  const FreshDomain domain;
  in_two_processes(
      [&](int wire) {
        Writer w(domain, 1);
        w.wait_for_reader();
        w.stream.pause();
        publish_on(w, 1, 5);
        const std::size_t before = standin_calls("cuMemcpyAsync");
        standin_fail("cuStreamWriteValue64_v2", 0, 1);
        tell(wire);
        EXPECT_TRUE(eventually([&] { return standin_calls("cuMemcpyAsync") == before + 1; }));
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        EXPECT_EQ(w.us->memory_use().blocks, 1U);
        w.stream.resume();
        wait_for(wire);
        EXPECT_EQ(w.us->memory_use().blocks, 0U);
      },
      [&](int wire) {
        NoGpuReader b(domain);
        EXPECT_EQ(b.subscriber.wait_for_publishers(1, kLong), Outcome::kDone);
        wait_for(wire);
        EXPECT_TRUE(eventually([&] {
          EXPECT_FALSE(b.subscriber.try_receive());
          return b.subscriber.stats().gone == 1;
        }));
        tell(wire);
      },
      kNoDriver);
}

TEST(CudaStaging, a_broken_context_ends_the_copies_under_way_and_refuses_others) {
  const FreshDomain domain;
  in_two_processes(
      [&](int wire) {
        Writer& w = *new Writer(domain, 1);  // the stand-in's streams go on, a broken one's do not
        w.wait_for_reader();
        w.stream.pause();
        const std::size_t before = standin_calls("cuMemcpyAsync");
        publish_on(w, 1, 5);
        EXPECT_TRUE(eventually([&] { return standin_calls("cuMemcpyAsync") == before + 1; }));
        const device::GpuStream stream(device::Gpu::at(1));
        EXPECT_THROW(stream.check(standin::Result{700}, "a kernel"), Error);
        wait_for(wire);
        publish_on(w, 1, 6);
        wait_for(wire);
        EXPECT_EQ(standin_calls("cuMemcpyAsync"), before + 1);
      },
      [&](int wire) {
        NoGpuReader b(domain);
        for (const std::uint64_t gone : {1U, 2U}) {
          EXPECT_TRUE(eventually([&] {
            EXPECT_FALSE(b.subscriber.try_receive());
            return b.subscriber.stats().gone == gone;
          }));
          tell(wire);
        }
        char nothing = 0;
        EXPECT_EQ(::recv(wire, &nothing, 1, 0), 0) << "its process ends with its streams at work";
      },
      kNoDriver);
}

TEST(CudaStaging, copies_that_do_not_fit_wait_until_others_are_read) {
  const FreshDomain domain;
  ::setenv("TENSORBUS_BUDGET", "262144", 1);  // half of it takes three copies
  in_two_processes(
      [&](int wire) {
        Writer w(domain, 1);
        w.wait_for_reader();
        for (std::uint64_t seed = 1; seed <= 8; ++seed) publish_on(w, 1, seed);
        wait_for(wire);
        bus::Loan large = w.publisher.loan<std::uint64_t>({16 * kWords}, Device::cuda(1));
        w.publisher.publish(std::move(large), w.stream.get());
        wait_for(wire);
      },
      [&](int wire) {
        NoGpuReader b(domain);
        std::deque<bus::Sample> held;
        for (std::uint64_t seed = 1; seed <= 3; ++seed) held.push_back(b.next());
        EXPECT_FALSE(b.subscriber.receive(std::chrono::milliseconds(100)));
        for (std::uint64_t seed = 1; seed <= 8; ++seed) {
          EXPECT_EQ(seed_in(held.front().tensor()), seed);
          held.pop_front();
          if (seed <= 5) held.push_back(b.next());
        }
        EXPECT_EQ(b.subscriber.stats().gone, 0U);
        tell(wire);
        EXPECT_TRUE(eventually([&] {
          EXPECT_FALSE(b.subscriber.try_receive());
          return b.subscriber.stats().gone == 1;
        })) << "what never fits";
        tell(wire);
      },
      kNoDriver);
  ::unsetenv("TENSORBUS_BUDGET");
}

// A peer that asks for a copy as often as it may, and reads no answers.
void ask_without_end(bus::testing::FakePeer& peer) {
  const auto flush_for = [&](std::chrono::milliseconds patience) {
    const platform::Deadline deadline(patience);
    while (peer.channel.waiting() > 0 && !deadline.passed()) {
      peer.channel.flush();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  };
  constexpr auto kDevice1 = memory::SegmentId::device(1, 0);
  for (std::uint32_t request = 1; request <= 4096; ++request)
    peer.channel.send(link::Stage{request, {kDevice1, 0, 1}, kWords * 8});
  flush_for(kLong);
  EXPECT_EQ(peer.channel.waiting(), 0U);
  for (std::uint32_t request = 5000; request < 8000; ++request)
    peer.channel.send(link::Attach{request, 99, 99, 0});
  flush_for(std::chrono::milliseconds(500));
  EXPECT_GT(peer.channel.waiting(), 0U) << "it is heard no longer";
}

TEST(CudaStaging, who_reads_no_answers_keeps_nobody_from_a_copy) {
  const FreshDomain domain;
  in_two_processes(
      [&](int wire) {
        Writer w(domain, 1);
        standin::test::send(wire, w.us->id());
        w.wait_for_reader();
        w.stream.pause();
        publish_on(w, 1, 5);
        tell(wire);
        wait_for(wire);
        w.stream.resume();
        wait_for(wire);
      },
      [&](int wire) {
        const Id owner = standin::test::receive<Id>(wire);
        NoGpuReader b(domain);
        wait_for(wire);
        bus::testing::FakePeer rude(bus::Domain{domain.path()}.connect(owner).socket);
        rude.say_hello();
        EXPECT_EQ(rude.next(), link::ControlType::kHello);
        ask_without_end(rude);
        EXPECT_FALSE(b.subscriber.receive(std::chrono::milliseconds(300)));
        tell(wire);
        const auto sample = b.subscriber.receive(std::chrono::seconds(5));
        EXPECT_EQ(sample ? seed_in(sample->tensor()) : std::nullopt, 5U);
        tell(wire);
      },
      kNoDriver);
}

}  // namespace
}  // namespace tensorbus
