// Memory of pools, lent where it lies. The stand-in ends the process of an owner that frees what
// somebody has imported, and of a borrower that imports it twice.

#include "foreign.hpp"

namespace tensorbus {
namespace {

using namespace testing;

// Publishes memory of a pool of that kind, and says whether it was copied.
void exchange(standin::HandleType type, bool copied, const std::function<void()>& before = [] {}) {
  const FreshDomain domain;
  in_two_processes(
      [&](int wire) {
        Writer w(domain);
        w.wait_for_reader();
        Foreign memory = Foreign::pooled(8 * kBytes, new_pool(type), w.stream.get());
        before();
        for (std::uint64_t seed = 1; seed <= 5; ++seed) {
          publish(w, memory, seed, kBytes);
          wait_for(wire);
        }
        EXPECT_EQ(w.publisher.stats().bytes_copied, copied ? 5 * kBytes : 0U);
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
        EXPECT_EQ(r.subscriber.stats().staged, 0U);
        wait_for(wire);
        if (copied) return;
        EXPECT_EQ(standin_open_mappings(), 0U);
        EXPECT_EQ(standin_imported_pools(), 0U);
      });
}

TEST(CudaPools, that_can_be_exported_are_read_where_they_lie) {
  exchange(standin::HandleType::kPosixFd, false);
}

TEST(CudaPools, that_cannot_be_exported_are_copied) {
  exchange(standin::HandleType::kNone, true);
  for (const char* symbol :
       {"cuMemPoolExportToShareableHandle", "cuMemPoolExportPointer", "cuMemGetAddressRange_v2"})
    exchange(standin::HandleType::kPosixFd, true, [symbol] { standin_fail(symbol, 0, 801); });
}

TEST(CudaPools, are_freed_when_nobody_was_sent_them) {
  const FreshDomain domain;
  in_process([&] {
    Writer w(domain);
    Foreign memory = Foreign::pooled(8 * kBytes, new_pool(), w.stream.get());
    publish(w, memory, 1);
    memory.let_go();
    EXPECT_TRUE(eventually([&] { return memory.freed(); }));
  });
}

// Whose streams are running when it has let go, or has closed its subscriber.
void expect_kept_for_a_slow_stream(bool closes) {
  const FreshDomain domain;
  in_two_processes(
      [&](int wire) {
        Writer w(domain);
        w.wait_for_reader();
        Foreign memory = Foreign::pooled(8 * kBytes, new_pool(), w.stream.get());
        publish(w, memory, 3);
        memory.let_go();
        wait_for(wire);  // its stream has not passed
        // Longer than a process is given to die.
        std::this_thread::sleep_for(std::chrono::milliseconds(closes ? 1200 : 100));
        EXPECT_FALSE(memory.freed());
        tell(wire);
        EXPECT_TRUE(eventually([&] { return memory.freed(); }));
        tell(wire);
      },
      [&](int wire) {
        const TestStream stream;
        Found found;
        std::optional<Reader> r(domain);
        {
          const bus::Sample sample = r->next();
          stream.pause();
          found = read_on(stream, sample.tensor());
        }
        if (closes) r.reset();
        tell(wire);
        wait_for(wire);
        EXPECT_EQ(standin_open_mappings(), 1U);
        stream.resume();
        stream.synchronize();
        EXPECT_EQ(*found, 3U);
        wait_for(wire);
        EXPECT_EQ(standin_open_mappings(), 0U);
      });
}

TEST(CudaPools, are_kept_until_a_reader_whose_stream_has_passed_has_closed_them) {
  expect_kept_for_a_slow_stream(false);
}

TEST(CudaPools, are_kept_until_a_reader_that_was_closed_has_closed_them) {
  expect_kept_for_a_slow_stream(true);
}

TEST(CudaPools, are_kept_by_an_owner_that_has_hung_up_and_lives) {
  const FreshDomain domain;
  in_two_processes(
      [&](int wire) {
        std::optional<Writer> w(domain);
        w->wait_for_reader();
        Foreign memory = pooled();
        publish(*w, memory, 3);
        memory.let_go();
        wait_for(wire);
        w.reset();
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        EXPECT_FALSE(memory.freed());
        tell(wire);
        EXPECT_TRUE(eventually([&] { return memory.freed(); }));
      },
      [&](int wire) {
        Reader r(domain);
        {
          const bus::Sample sample = r.next();
          (void)read_on(r.stream, sample.tensor());
          tell(wire);
          wait_for(wire);
          EXPECT_TRUE(eventually([&] { return r.subscriber.stats().publishers == 0; }));
          const Found found = read_on(r.stream, sample.tensor());
          r.stream.synchronize();
          EXPECT_EQ(*found, 3U);
        }
        EXPECT_TRUE(eventually([&] { return standin_open_mappings() == 0; }));
      });
}

TEST(CudaPools, that_a_killed_reader_had_open_are_let_go_of) {
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
        Foreign memory = Foreign::pooled(8 * kBytes, new_pool(), w.stream.get());
        publish(w, memory, 1);
        memory.let_go();
        wait_for(wire);
        EXPECT_FALSE(memory.freed());
        tell(wire);
        EXPECT_TRUE(eventually([&] { return memory.freed(); }));
      });
}

TEST(CudaPools, of_an_owner_that_was_killed_are_let_go_of_like_others) {
  const FreshDomain domain;
  while_the_first_is_killed(
      [&](int wire) {
        Writer w(domain);
        w.wait_for_reader();
        const Foreign memory = Foreign::pooled(8 * kBytes, new_pool(), w.stream.get());
        publish(w, memory, 6);
        w.stream.synchronize();
        wait_for(wire);
        ::raise(SIGKILL);
      },
      [&](int wire) {
        Reader r(domain);
        {
          const bus::Sample sample = r.next();
          (void)read_on(r.stream, sample.tensor());
          r.stream.synchronize();
          tell(wire);
          EXPECT_TRUE(eventually([&] { return r.subscriber.stats().publishers == 0; }));
        }
        EXPECT_TRUE(eventually([&] { return standin_open_mappings() == 0; }));
        EXPECT_TRUE(eventually([&] { return standin_imported_pools() == 0; }));
      });
}

TEST(CudaPools, are_kept_until_the_last_of_several_readers_has_closed_them) {
  const FreshDomain domain;
  int wires[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, wires), 0);
  auto quick = start_process({}, [&] {
    Reader r(domain);
    expect_next(r, 5);
    tell(wires[0]);
    EXPECT_TRUE(eventually([&] { return standin_open_mappings() == 0; }));
    wait_for(wires[0]);
  });
  in_two_processes(
      [&](int wire) {
        Writer w(domain);
        EXPECT_EQ(w.publisher.wait_for_subscribers(2, kLong), Outcome::kDone);
        Foreign memory = Foreign::pooled(8 * kBytes, new_pool(), w.stream.get());
        publish(w, memory, 5);
        memory.let_go();
        wait_for(wires[1]);
        wait_for(wire);
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        EXPECT_FALSE(memory.freed());
        tell(wire);
        EXPECT_TRUE(eventually([&] { return memory.freed(); }));
        tell(wires[1]);
      },
      [&](int wire) {
        Reader r(domain);
        {
          const bus::Sample sample = r.next();
          (void)read_on(r.stream, sample.tensor());
          r.stream.synchronize();
          tell(wire);
          wait_for(wire);
        }
        EXPECT_TRUE(eventually([&] { return standin_open_mappings() == 0; }));
      });
  EXPECT_EQ(quick.wait(), "exit 0");
}

TEST(CudaPools, are_opened_once_by_all_of_a_process) {
  const FreshDomain domain;
  in_two_processes(
      [&](int wire) {
        Writer w(domain);
        EXPECT_EQ(w.publisher.wait_for_subscribers(2, kLong), Outcome::kDone);
        const standin::MemoryPool pool = new_pool();
        Foreign memory = Foreign::pooled(8 * kBytes, pool, w.stream.get());
        Foreign other = Foreign::pooled(8 * kBytes, pool, w.stream.get());
        publish(w, memory, 8);
        publish(w, other, 9);
        wait_for(wire);
        memory.let_go();
        other.let_go();
        EXPECT_TRUE(eventually([&] { return memory.freed() && other.freed(); }));
        tell(wire);
      },
      [&](int wire) {
        {
          Reader one(domain);
          Reader two(domain);
          const bus::Sample first[] = {one.next(), two.next()};
          const bus::Sample second[] = {one.next(), two.next()};
          for (const bus::Sample& sample : first) (void)read_on(one.stream, sample.tensor());
          for (const bus::Sample& sample : second) (void)read_on(one.stream, sample.tensor());
          one.stream.synchronize();
          EXPECT_EQ(standin_calls("cuMemPoolImportPointer"), 2U);
          EXPECT_EQ(standin_imported_pools(), 1U);
        }
        tell(wire);
        wait_for(wire);
        EXPECT_EQ(standin_calls("cuMemPoolDestroy"), 1U);
      });
}

TEST(CudaPools, reach_a_subscriber_of_the_same_process_as_they_are) {
  const FreshDomain domain;
  in_process([&] {
    Writer w(domain);
    Reader r(domain);
    w.wait_for_reader();
    Foreign memory = Foreign::pooled(8 * kBytes, new_pool(), w.stream.get());
    publish(w, memory, 8, kBytes);
    {
      const bus::Sample sample = r.next();
      EXPECT_EQ(sample.tensor().data(), reinterpret_cast<std::byte*>(memory.at(kBytes)));
      (void)read_on(r.stream, sample.tensor());
      memory.let_go();
      r.stream.synchronize();
      EXPECT_FALSE(memory.freed());
    }
    EXPECT_TRUE(eventually([&] { return memory.freed(); }));
    EXPECT_EQ(standin_calls("cuMemPoolImportFromShareableHandle"), 0U);
  });
}

}  // namespace
}  // namespace tensorbus
