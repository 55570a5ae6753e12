// Memory of other allocators, lent where it lies.

#include <array>
#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "ends.hpp"
#include "tensorbus/bus/queue.hpp"
#include "tensorbus/bus/share.hpp"
#include "tensorbus/platform/cuda_foreign.hpp"

namespace tensorbus {
namespace {

using namespace testing;
using standin::DevicePtr;
using standin::test::kChunkBytes;

constexpr std::size_t kBytes = kWords * 8;

// Memory of an allocator of the test's, which is freed when its keeper is let go of.
class Foreign {
 public:
  // By cudaMalloc.
  static Foreign allocated(std::size_t bytes) {
    DevicePtr address = 0;
    EXPECT_OK(standin::cuMemAlloc_v2(&address, bytes));
    return {address, [address] { EXPECT_OK(standin::cuMemFree_v2(address)); }};
  }
  // So many chunks of cuMemCreate, one behind the other.
  static Foreign chunked(std::size_t chunks, standin::HandleType type) {
    DevicePtr address = 0;
    EXPECT_OK(standin::cuMemAddressReserve(&address, chunks * kChunkBytes, 0, 0, 0));
    standin::AllocationProp wanted;
    wanted.type = standin::AllocationType::kPinned;
    wanted.location = {standin::LocationType::kDevice, 0};
    wanted.requested_handle_types = type;
    const standin::AccessDesc access{wanted.location, standin::AccessFlags::kReadWrite};
    for (std::size_t i = 0; i < chunks; ++i) {
      standin::AllocationHandle handle = 0;
      EXPECT_OK(standin::cuMemCreate(&handle, kChunkBytes, &wanted, 0));
      EXPECT_OK(standin::cuMemMap(address + i * kChunkBytes, kChunkBytes, 0, handle, 0));
      EXPECT_OK(standin::cuMemRelease(handle));
    }
    EXPECT_OK(standin::cuMemSetAccess(address, chunks * kChunkBytes, &access, 1));
    return {address, [address, chunks] {
              EXPECT_OK(standin::cuMemUnmap(address, chunks * kChunkBytes));
              EXPECT_OK(standin::cuMemAddressFree(address, chunks * kChunkBytes));
            }};
  }

  TensorView view(const TestStream& stream, std::size_t offset, std::size_t words = kWords) const {
    TensorView view = TensorView::of(at(offset), {static_cast<std::int64_t>(words)});
    view.device = Device::cuda();
    view.stream = stream.get();
    view.keeper = keeper_;
    return view;
  }
  std::uint64_t* at(std::size_t offset) const {
    return reinterpret_cast<std::uint64_t*>(address_ + offset);
  }
  void write(const TestStream& stream, std::uint64_t seed, std::size_t offset,
             std::size_t words = kWords) const {
    stream.launch([to = std::span(at(offset), words), seed] { write_pattern(to, seed); });
  }
  bool freed() const { return *freed_; }
  // Now only its readers keep it.
  void let_go() { keeper_.reset(); }

 private:
  Foreign(DevicePtr address, std::function<void()> free)
      : address_(address),
        keeper_(freed_.get(), [free = std::move(free), freed = freed_](const void*) {
          const standin::test::Session session;  // whichever thread this is
          free();
          *freed = true;
        }) {}

  DevicePtr address_;
  std::shared_ptr<std::atomic<bool>> freed_ = std::make_shared<std::atomic<bool>>(false);
  std::shared_ptr<const void> keeper_;
};

void publish(Writer& w, const Foreign& memory, std::uint64_t seed, std::size_t offset = 0,
             std::size_t words = kWords) {
  memory.write(w.stream, seed, offset, words);
  ASSERT_EQ(w.publisher.publish(memory.view(w.stream, offset, words)).outcome, Outcome::kDone);
}

void expect_next(Reader& r, std::uint64_t seed) {
  const Sample sample = r.next();
  const Found found = read_on(r.stream, sample.tensor());
  r.stream.synchronize();
  EXPECT_EQ(*found, seed);
}

using MakeMemory = std::function<Foreign()>;
Foreign allocation() { return Foreign::allocated(8 * kBytes); }
Foreign chunks() { return Foreign::chunked(3, standin::HandleType::kPosixFd); }

// Publishes what `make` gives, and says whether it was copied.
void exchange(
    const MakeMemory& make, std::size_t offset, std::size_t words, bool copied,
    const std::function<void()>& before = [] {}) {
  const FreshDomain domain;
  in_two_processes(
      [&](int wire) {
        Writer w(domain);
        w.wait_for_reader();
        Foreign memory = make();
        before();
        for (std::uint64_t seed = 1; seed <= 5; ++seed) {
          publish(w, memory, seed, offset, words);
          wait_for(wire);
        }
        EXPECT_EQ(w.publisher.stats().bytes_copied, copied ? 5 * words * 8 : 0U);
        memory.let_go();
        EXPECT_TRUE(eventually([&] { return memory.freed(); }));
        tell(wire);
      },
      [&](int wire) {
        Reader r(domain);
        for (std::uint64_t seed = 1; seed <= 5; ++seed) {
          expect_next(r, seed);
          tell(wire);
        }
        EXPECT_LE(standin_calls("cuIpcOpenMemHandle_v2"), 1U);
        wait_for(wire);
      });
}

TEST(CudaExports, of_an_allocation_are_read_where_they_lie) {
  exchange(allocation, 0, kWords, false);
}

TEST(CudaExports, of_a_part_of_an_allocation_are_read_where_they_lie) {
  exchange(allocation, 3 * kBytes, kWords, false);
}

TEST(CudaExports, of_chunks_are_read_where_they_lie) { exchange(chunks, 512, kWords, false); }

TEST(CudaExports, across_the_borders_of_chunks_are_read_where_they_lie) {
  exchange(chunks, kChunkBytes - 512, kWords, false);
  exchange(chunks, kChunkBytes - 512, kChunkBytes / 8 + 1024, false);
}

// What cannot be given to others, or not just now, is copied and counted.
TEST(CudaExports, that_the_driver_refuses_are_copied) {
  const auto failing = [](const char* symbol) {
    return [symbol] { standin_fail(symbol, 0, 801); };
  };
  exchange(allocation, 0, kWords, true, failing("cuIpcGetMemHandle"));
  exchange(allocation, 0, kWords, true, failing("cuMemGetAddressRange_v2"));
  exchange(allocation, 0, kWords, true, failing("cuPointerGetAttributes"));
  exchange(chunks, 0, kWords, true, failing("cuMemRetainAllocationHandle"));
}

TEST(CudaExports, of_chunks_that_are_their_processs_own_are_copied) {
  exchange([] { return Foreign::chunked(2, standin::HandleType::kNone); }, 512, kWords, true);
}

TEST(CudaExports, of_which_a_part_cannot_be_had_are_copied) {
  const FreshDomain domain;
  in_process([&] {
    Writer w(domain);
    const auto memory = Foreign::chunked(1, standin::HandleType::kPosixFd);
    const auto& device = platform::CudaDevice::at(0);
    const auto around = [&](std::size_t offset, std::size_t bytes) {
      const auto* const first = reinterpret_cast<const std::byte*>(memory.at(offset));
      return platform::CudaForeign::around(device, first, bytes).has_value();
    };
    EXPECT_TRUE(around(0, kChunkBytes));
    EXPECT_TRUE(around(kChunkBytes - 8, 8));
    EXPECT_FALSE(around(kChunkBytes - 8, 16));
    EXPECT_FALSE(around(0, std::size_t{1} << 40));
  });
}

TEST(CudaExports, that_nobody_keeps_are_copied) {
  const FreshDomain domain;
  in_process([&] {
    Writer w(domain);
    const Foreign memory = allocation();
    TensorView view = memory.view(w.stream, 0);
    view.keeper.reset();
    w.publisher.publish(view);
    EXPECT_EQ(w.publisher.stats().bytes_copied, kBytes);
  });
}

TEST(CudaExports, are_kept_until_the_readers_stream_has_passed) {
  const FreshDomain domain;
  in_two_processes(
      [&](int wire) {
        Writer w(domain);
        w.wait_for_reader();
        Foreign memory = allocation();
        publish(w, memory, 3);
        memory.let_go();
        wait_for(wire);  // it has let go, and its kernel has not run
        w.stream.synchronize();
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        EXPECT_FALSE(memory.freed());
        tell(wire);
        // Nothing more is published: it is looked for.
        EXPECT_TRUE(eventually([&] { return memory.freed(); }));
        tell(wire);
      },
      [&](int wire) {
        Reader r(domain);
        Found found;
        {
          const Sample sample = r.next();
          r.stream.pause();
          found = read_on(r.stream, sample.tensor());
        }
        tell(wire);
        wait_for(wire);
        r.stream.resume();
        r.stream.synchronize();
        EXPECT_EQ(*found, 3U);
        wait_for(wire);
        // Its allocation is gone, and nothing of it stays here.
        EXPECT_TRUE(eventually([&] { return standin_open_mappings() == 0; }));
      });
}

TEST(CudaExports, that_nobody_takes_are_let_go_of_at_once) {
  const FreshDomain domain;
  in_process([&] {
    Writer w(domain);
    Foreign memory = allocation();
    publish(w, memory, 3);
    memory.let_go();
    EXPECT_TRUE(eventually([&] { return memory.freed(); }));
  });
}

TEST(CudaExports, that_a_killed_reader_had_are_let_go_of) {
  const FreshDomain domain;
  while_the_first_is_killed(
      [&](int wire) {
        Reader r(domain);
        const Sample sample = r.next();
        r.stream.pause();
        (void)read_on(r.stream, sample.tensor());
        tell(wire);
        wait_for(wire);
        ::raise(SIGKILL);
      },
      [&](int wire) {
        Writer w(domain);
        w.wait_for_reader();
        Foreign memory = allocation();
        publish(w, memory, 1);
        memory.let_go();
        wait_for(wire);
        EXPECT_FALSE(memory.freed());
        tell(wire);
        EXPECT_TRUE(eventually([&] { return memory.freed(); }));
      });
}

TEST(CudaExports, of_an_owner_that_was_killed_stay_readable) {
  const FreshDomain domain;
  while_the_first_is_killed(
      [&](int wire) {
        Writer w(domain);
        w.wait_for_reader();
        const Foreign memory = chunks();
        publish(w, memory, 6, kChunkBytes - 512);
        w.stream.synchronize();
        wait_for(wire);
        ::raise(SIGKILL);
      },
      [&](int wire) {
        Reader r(domain);
        const Sample sample = r.next();
        (void)read_on(r.stream, sample.tensor());
        r.stream.synchronize();
        tell(wire);
        EXPECT_TRUE(eventually([&] { return r.subscriber.stats().publishers == 0; }));
        const Found found = read_on(r.stream, sample.tensor());
        r.stream.synchronize();
        EXPECT_EQ(*found, 6U);
        EXPECT_TRUE(sample.tensor().intact());
      });
}

// Two allocations at one address: readers see the second, not what they had opened before.
TEST(CudaExports, at_an_address_that_is_used_again_are_the_new_ones) {
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

TEST(CudaExports, reach_a_subscriber_of_the_same_process_as_they_are) {
  const FreshDomain domain;
  in_process([&] {
    Writer w(domain);
    Reader r(domain);
    w.wait_for_reader();
    Foreign memory = allocation();
    publish(w, memory, 8, kBytes);
    {
      const Sample sample = r.next();
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

TEST(CudaExports, are_opened_once_by_all_of_a_process) {
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

TEST(CudaExports, of_several_threads_come_and_go) {
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
          const Sample sample = r.next();
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

TEST(CudaExports, are_handed_on_by_who_received_them) {
  const FreshDomain domain;
  auto end = start_process({}, [&] {
    const Participant us = domain.join();
    Subscriber subscriber("onward", {}, us);
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
        Publisher onward("onward", {.history = 1}, r.us);
        EXPECT_EQ(onward.wait_for_subscribers(1, kLong), Outcome::kDone);
        {
          const Sample sample = r.next();
          const Tensor& tensor = sample.tensor();
          onward.publish(TensorView{tensor.data(), tensor.layout(), tensor.device()});
        }
        EXPECT_EQ(onward.stats().bytes_copied, 0U);
        EXPECT_EQ(end.wait(), "exit 0");
        onward.close();
        tell(wire);
        wait_for(wire);
      });
}

TEST(CudaExports, are_shared_and_attached_to) {
  const FreshDomain domain;
  in_two_processes(
      [&](int wire) {
        const Participant us = domain.join();
        const TestStream stream;
        Foreign memory = allocation();
        memory.write(stream, 4, kBytes);
        Shared shared = share({.tensors = {memory.view(stream, kBytes)}}, {}, us);
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
        const Participant us = domain.join();
        const TestStream stream;
        const auto text = standin::test::receive<std::array<char, 4096>>(wire);
        {
          const Sample sample = attach(Handle::parse(text.data()), {.timeout = kLong}, us);
          const Found found = read_on(stream, sample.tensor());
          tell(wire);
          wait_for(wire);
          stream.synchronize();
          EXPECT_EQ(*found, 4U);
        }
        wait_for(wire);
      });
}

TEST(CudaExports, go_through_a_queue) {
  const FreshDomain domain;
  in_two_processes(
      [&](int wire) {
        const Participant us = domain.join();
        const TestStream stream;
        Foreign memory = chunks();
        memory.write(stream, 4, kBytes);
        Queue queue({.name = "frames"}, us);
        EXPECT_EQ(queue.put({.tensors = {memory.view(stream, kBytes)}}), Outcome::kDone);
        memory.let_go();
        tell(wire);
        wait_for(wire);
        EXPECT_TRUE(eventually([&] { return memory.freed(); }));
      },
      [&](int wire) {
        const Participant us = domain.join();
        const TestStream stream;
        wait_for(wire);
        Queue queue = Queue::open("frames", kLong, {}, us);
        {
          Sample item;
          EXPECT_EQ(queue.get(item, kLong), Outcome::kDone);
          const Found found = read_on(stream, item.tensor());
          stream.synchronize();
          EXPECT_EQ(*found, 4U);
        }
        tell(wire);
      });
}

}  // namespace
}  // namespace tensorbus
