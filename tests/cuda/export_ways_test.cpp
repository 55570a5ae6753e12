// Memory of other allocators, lent where it lies: whoever gets it, whatever way.

#include <array>
#include <thread>
#include <vector>

#include "foreign.hpp"
#include "tensorbus/bus/queue.hpp"
#include "tensorbus/bus/share.hpp"

namespace tensorbus {
namespace {

using namespace testing;

// Two allocations at one address: readers see the second, not what they had opened before.
TEST(DeviceExports, at_an_address_that_is_used_again_are_the_new_ones) {
  for (const MakeMemory& make : {MakeMemory(allocation), MakeMemory(chunks)}) {
    const FreshDomain domain;
    in_two_processes(
        [&](int wire) {
          Writer w(domain);
          w.wait_for_reader();
          const void* before = nullptr;
          int again = 0;
          for (std::uint64_t seed = 1; seed <= 5; ++seed) {
            Foreign memory = make();
            again += memory.at(0) == before ? 1 : 0;
            before = memory.at(0);
            publish(w, memory, seed);
            wait_for(wire);
            memory.let_go();
            ASSERT_TRUE(eventually([&] { return memory.freed(); }));
          }
          EXPECT_GT(again, 0) << "nothing was tested";
          EXPECT_EQ(w.publisher.stats().bytes_copied, 0U);
          tell(wire);
        },
        [&](int wire) {
          Reader r(domain);
          for (std::uint64_t seed = 1; seed <= 5; ++seed) {
            expect_next(r, seed);
            tell(wire);
          }
          wait_for(wire);
          EXPECT_TRUE(eventually([&] { return standin_open_mappings() == 0; }));
        });
  }
}

TEST(DeviceExports, reach_a_subscriber_of_the_same_process_as_they_are) {
  const FreshDomain domain;
  in_process([&] {
    Writer w(domain);
    Reader r(domain);
    w.wait_for_reader();
    Foreign memory = allocation();
    publish(w, memory, 8, kBytes);
    {
      const bus::Sample sample = r.next();
      EXPECT_EQ(sample.tensor().data(), reinterpret_cast<std::byte*>(memory.at(kBytes)));
      const Found found = read_on(r.stream, sample.tensor());
      memory.let_go();
      r.stream.synchronize();
      EXPECT_EQ(*found, 8U);
      EXPECT_FALSE(memory.freed());
    }
    EXPECT_TRUE(eventually([&] { return memory.freed(); }));
    EXPECT_EQ(standin_calls("cuIpcOpenMemHandle_v2"), 0U);
  });
}

TEST(DeviceExports, are_opened_once_by_all_of_a_process) {
  const FreshDomain domain;
  in_two_processes(
      [&](int wire) {
        Writer w(domain);
        EXPECT_EQ(w.publisher.wait_for_subscribers(2, kLong), Outcome::kDone);
        Foreign memory = allocation();
        publish(w, memory, 8);
        wait_for(wire);
        memory.let_go();
        EXPECT_TRUE(eventually([&] { return memory.freed(); }));
        tell(wire);
      },
      [&](int wire) {
        Reader one(domain);
        Reader other(domain);
        expect_next(one, 8);
        expect_next(other, 8);
        EXPECT_EQ(standin_calls("cuIpcOpenMemHandle_v2"), 1U);
        tell(wire);
        wait_for(wire);
        EXPECT_TRUE(eventually([&] { return standin_open_mappings() == 0; }));
      });
}

TEST(DeviceExports, of_several_threads_come_and_go) {
  constexpr std::uint64_t kThreads = 3;
  constexpr std::uint64_t kEach = 30;
  const FreshDomain domain;
  in_two_processes(
      [&](int wire) {
        Writer w(domain, 0, {.depth = 4, .reliable = true});
        w.wait_for_reader();
        std::vector<std::thread> threads;
        for (std::uint64_t thread = 0; thread < kThreads; ++thread)
          threads.emplace_back([&w, thread] {
            const TestStream stream;
            const Foreign lasting = chunks();
            for (std::uint64_t i = 0; i < kEach; ++i) {
              const Foreign memory = i % 3 == 0 ? lasting : i % 3 == 1 ? allocation() : chunks();
              const std::size_t offset = memory.at(0) == lasting.at(0) ? i * kBytes : 512;
              memory.write(stream, 1 + thread * kEach + i, offset);
              EXPECT_EQ(w.publisher.publish(memory.view(stream, offset)).outcome, Outcome::kDone);
            }
          });
        for (std::thread& thread : threads) thread.join();
        wait_for(wire);
        EXPECT_EQ(w.publisher.stats().bytes_copied, 0U);
        EXPECT_TRUE(eventually([] { return standin_allocated_bytes(0) == 0; }));
        tell(wire);
      },
      [&](int wire) {
        Reader r(domain);
        std::uint64_t sum = 0;
        for (std::uint64_t i = 0; i < kThreads * kEach; ++i) {
          const bus::Sample sample = r.next();
          const Found found = read_on(r.stream, sample.tensor());
          r.stream.synchronize();
          sum += found->value_or(0);
        }
        EXPECT_EQ(sum, kThreads * kEach * (kThreads * kEach + 1) / 2);
        tell(wire);
        wait_for(wire);
        EXPECT_TRUE(eventually([] { return standin_open_mappings() == 0; }));
      });
}

TEST(DeviceExports, are_handed_on_by_who_received_them) {
  const FreshDomain domain;
  auto end = start_process({}, [&] {
    const bus::ParticipantRef us = domain.join();
    bus::Subscriber subscriber("onward", {}, us);
    const TestStream stream;
    const auto sample = subscriber.receive(kLong);
    ASSERT_TRUE(sample);
    const Found found = read_on(stream, sample->tensor());
    stream.synchronize();
    EXPECT_EQ(*found, 5U);
  });
  in_two_processes(
      [&](int wire) {
        Writer w(domain);
        w.wait_for_reader();
        Foreign memory = chunks();
        publish(w, memory, 5, kChunkBytes - 512);
        memory.let_go();
        wait_for(wire);  // the middle has let go
        EXPECT_EQ(w.publisher.stats().bytes_copied, 0U);
        EXPECT_TRUE(eventually([&] { return memory.freed(); }));
        tell(wire);
      },
      [&](int wire) {
        Reader r(domain);
        bus::Publisher onward("onward", {.history = 1}, r.us);
        EXPECT_EQ(onward.wait_for_subscribers(1, kLong), Outcome::kDone);
        {
          const bus::Sample sample = r.next();
          const bus::Tensor& tensor = sample.tensor();
          onward.publish(TensorView{tensor.data(), tensor.layout(), tensor.device()});
        }
        EXPECT_EQ(onward.stats().bytes_copied, 0U);
        EXPECT_EQ(end.wait(), "exit 0");
        onward.close();
        tell(wire);
        wait_for(wire);
      });
}

TEST(DeviceExports, are_shared_and_attached_to) {
  const FreshDomain domain;
  in_two_processes(
      [&](int wire) {
        const bus::ParticipantRef us = domain.join();
        const TestStream stream;
        Foreign memory = allocation();
        memory.write(stream, 4, kBytes);
        bus::Shared shared = share({.tensors = {memory.view(stream, kBytes)}}, {}, us);
        memory.let_go();
        std::array<char, 4096> text{};
        shared.handle().text().copy(text.data(), text.size() - 1);
        standin::test::send(wire, text);
        wait_for(wire);
        shared.close();
        EXPECT_FALSE(memory.freed());
        tell(wire);
        EXPECT_TRUE(eventually([&] { return memory.freed(); }));
        tell(wire);
      },
      [&](int wire) {
        const bus::ParticipantRef us = domain.join();
        const TestStream stream;
        const auto text = standin::test::receive<std::array<char, 4096>>(wire);
        {
          const bus::Sample sample =
              attach(bus::Handle::parse(text.data()), {.timeout = kLong}, us);
          const Found found = read_on(stream, sample.tensor());
          tell(wire);
          wait_for(wire);
          stream.synchronize();
          EXPECT_EQ(*found, 4U);
        }
        wait_for(wire);
      });
}

TEST(DeviceExports, go_through_a_queue) {
  const FreshDomain domain;
  in_two_processes(
      [&](int wire) {
        const bus::ParticipantRef us = domain.join();
        const TestStream stream;
        Foreign memory = chunks();
        memory.write(stream, 4, kBytes);
        bus::Queue queue({.name = "frames"}, us);
        EXPECT_EQ(queue.put({.tensors = {memory.view(stream, kBytes)}}), Outcome::kDone);
        memory.let_go();
        tell(wire);
        wait_for(wire);
        EXPECT_TRUE(eventually([&] { return memory.freed(); }));
      },
      [&](int wire) {
        const bus::ParticipantRef us = domain.join();
        const TestStream stream;
        wait_for(wire);
        bus::Queue queue = bus::Queue::open("frames", kLong, us);
        {
          bus::Sample item;
          EXPECT_EQ(queue.get(item, kLong), Outcome::kDone);
          const Found found = read_on(stream, item.tensor());
          stream.synchronize();
          EXPECT_EQ(*found, 4U);
        }
        tell(wire);
      });
}

// Neither kind of memory can be opened by who has no driver, nor a handle by some who have one.
void expect_staged(const MakeMemory& make, const Environment& of_reader, const char* failing) {
  const FreshDomain domain;
  in_two_processes(
      [&](int wire) {
        Writer w(domain);
        w.wait_for_reader();
        Foreign memory = make();
        for (std::uint64_t seed = 1; seed <= 8; ++seed) {
          publish(w, memory, seed, 512);
          wait_for(wire);
        }
        EXPECT_EQ(w.publisher.stats().bytes_copied, 0U);
        memory.let_go();
        EXPECT_TRUE(eventually([&] { return memory.freed(); }));
        tell(wire);
      },
      [&](int wire) {
        const bus::ParticipantRef us = domain.join();
        if (failing != nullptr) standin_fail(failing, 0, 801);
        bus::Subscriber subscriber("frames", {}, us);
        for (std::uint64_t seed = 1; seed <= 8; ++seed) {
          const auto sample = subscriber.receive(kLong);
          ASSERT_TRUE(sample);
          EXPECT_EQ(seed_of(words_of(sample->tensor())), seed);
          EXPECT_EQ(sample->tensor().published_on(), Device::cuda(0));
          tell(wire);
        }
        wait_for(wire);
      },
      of_reader);
}

TEST(DeviceExports, come_through_host_memory_to_who_cannot_open_them) {
  const Environment no_driver{{"TENSORBUS_CUDA_DRIVER", "off"}};
  expect_staged(allocation, no_driver, nullptr);
  expect_staged(chunks, no_driver, nullptr);
  expect_staged(allocation, {}, "cuIpcOpenMemHandle_v2");
  expect_staged(chunks, {}, "cuMemImportFromShareableHandle");
  expect_staged(pooled, no_driver, nullptr);
  expect_staged(pooled, {}, "cuMemPoolImportFromShareableHandle");
  expect_staged(pooled, {}, "cuMemPoolImportPointer");
}

}  // namespace
}  // namespace tensorbus
