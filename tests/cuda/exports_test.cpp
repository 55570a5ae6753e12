// Memory of other allocators, lent where it lies: what is, and until when.

#include "foreign.hpp"
#include "tensorbus/device/foreign_memory.hpp"

namespace tensorbus {
namespace {

using namespace testing;

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

TEST(DeviceExports, of_an_allocation_are_read_where_they_lie) {
  exchange(allocation, 0, kWords, false);
}

TEST(DeviceExports, of_a_part_of_an_allocation_are_read_where_they_lie) {
  exchange(allocation, 3 * kBytes, kWords, false);
}

TEST(DeviceExports, of_chunks_are_read_where_they_lie) { exchange(chunks, 512, kWords, false); }

TEST(DeviceExports, across_the_borders_of_chunks_are_read_where_they_lie) {
  exchange(chunks, kChunkBytes - 512, kWords, false);
  exchange(chunks, kChunkBytes - 512, kChunkBytes / 8 + 1024, false);
}

// What cannot be given to others, or not just now, is copied and counted.
TEST(DeviceExports, that_the_driver_refuses_are_copied) {
  const auto failing = [](const char* symbol) {
    return [symbol] { standin_fail(symbol, 0, 801); };
  };
  exchange(allocation, 0, kWords, true, failing("cuIpcGetMemHandle"));
  exchange(allocation, 0, kWords, true, failing("cuMemGetAddressRange_v2"));
  exchange(allocation, 0, kWords, true, failing("cuPointerGetAttributes"));
  exchange(chunks, 0, kWords, true, failing("cuMemRetainAllocationHandle"));
}

TEST(DeviceExports, of_chunks_that_are_their_processs_own_are_copied) {
  exchange([] { return Foreign::chunked(2, standin::HandleType::kNone); }, 512, kWords, true);
}

TEST(DeviceExports, of_which_a_part_cannot_be_had_are_copied) {
  const FreshDomain domain;
  in_process([&] {
    Writer w(domain);
    const auto memory = Foreign::chunked(1, standin::HandleType::kPosixFd);
    const auto& device = device::Gpu::at(0);
    const auto around = [&](std::size_t offset, std::size_t bytes) {
      const auto* const first = reinterpret_cast<const std::byte*>(memory.at(offset));
      return device::ForeignMemory::around(device, first, bytes).has_value();
    };
    EXPECT_TRUE(around(0, kChunkBytes));
    EXPECT_TRUE(around(kChunkBytes - 8, 8));
    EXPECT_FALSE(around(kChunkBytes - 8, 16));
    EXPECT_FALSE(around(0, std::size_t{1} << 40));
  });
}

TEST(DeviceExports, that_nobody_keeps_are_copied) {
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

TEST(DeviceExports, are_kept_until_the_readers_stream_has_passed) {
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
          const bus::Sample sample = r.next();
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

TEST(DeviceExports, that_nobody_takes_are_let_go_of_at_once) {
  const FreshDomain domain;
  in_process([&] {
    Writer w(domain);
    Foreign memory = allocation();
    publish(w, memory, 3);
    memory.let_go();
    EXPECT_TRUE(eventually([&] { return memory.freed(); }));
  });
}

TEST(DeviceExports, that_a_killed_reader_had_are_let_go_of) {
  const FreshDomain domain;
  while_the_first_is_killed(
      [&](int wire) {
        Reader r(domain);
        const bus::Sample sample = r.next();
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

TEST(DeviceExports, of_an_owner_that_was_killed_stay_readable) {
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
        const bus::Sample sample = r.next();
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

}  // namespace
}  // namespace tensorbus
