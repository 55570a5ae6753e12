#include "tensorbus/link/trace/trace_ring.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "tensorbus/link/trace/trace_parents.hpp"
#include "tensorbus/link/trace/trace_reader.hpp"
#include "tensorbus/platform/error.hpp"
#include "tensorbus/platform/files/mapping.hpp"
#include "tensorbus/platform/files/memfd.hpp"

namespace tensorbus::link {
namespace {

std::vector<TraceRecord> read(TraceReader& reader) {
  std::vector<TraceRecord> records;
  reader.read(records);
  return records;
}

TEST(TraceRing, a_reader_gets_what_was_written_since_its_last_call) {
  const Id self = Id::random();
  TraceRing ring(self);
  TraceReader reader(ring.take_descriptor());
  EXPECT_TRUE(read(reader).empty());
  ring.write_published(3, 7);
  ring.write(TraceEvent::kReceive, {self, 3, 7});
  const auto records = read(reader);
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[0].event, TraceEvent::kPublish);
  EXPECT_EQ(records[0].participant, self);
  EXPECT_EQ(records[0].publisher, 3U);
  EXPECT_EQ(records[0].sequence, 7U);
  EXPECT_EQ(records[0].thread, static_cast<std::uint32_t>(::gettid()));
  EXPECT_EQ(records[1].event, TraceEvent::kReceive);
  EXPECT_LE(records[0].time_ns, records[1].time_ns);
  EXPECT_TRUE(read(reader).empty());
}

TEST(TraceRing, a_publish_names_the_parents_that_its_thread_has_named) {
  const Id self = Id::random();
  const Id other = Id::random();
  TraceRing ring(self);
  TraceReader reader(ring.take_descriptor());
  const std::vector<SampleName> parents(TraceParents::kMax + 1, {other, 5, 9});
  TraceParents::name(parents);
  std::thread([&] { ring.write_published(1, 0); }).join();  // a thread that has named none
  ring.write_published(1, 1);
  TraceParents::name({});
  ring.write_published(1, 2);
  const auto records = read(reader);
  ASSERT_EQ(records.size(), 3 + TraceParents::kMax);
  EXPECT_EQ(records[2].event, TraceEvent::kParent);
  EXPECT_EQ(records[2].participant, other);
  EXPECT_EQ(records[2].publisher, 5U);
  EXPECT_EQ(records[2].sequence, 9U);
  EXPECT_EQ(records[2].child_publisher, 1U);
  EXPECT_EQ(records[2].child_sequence, 1U);
}

TEST(TraceRing, a_reader_that_is_late_gets_the_newest_and_counts_the_others) {
  TraceRing ring(Id::random());
  TraceReader reader(ring.take_descriptor());
  for (std::uint64_t i = 0; i < kTraceRecords + 5; ++i) ring.write_published(1, i);
  const auto records = read(reader);
  ASSERT_EQ(records.size(), kTraceRecords);
  EXPECT_EQ(records.front().sequence, 5U);
  EXPECT_EQ(records.back().sequence, kTraceRecords + 4);
  EXPECT_EQ(reader.overwritten(), 5U);
}

TEST(TraceRing, threads_that_overtake_each_other_leave_whole_records_or_none) {
  TraceRing ring(Id::random());
  TraceReader reader(ring.take_descriptor());
  constexpr std::uint64_t kEach = kTraceRecords;
  std::vector<std::thread> threads;
  for (std::uint32_t number = 1; number <= 3; ++number)
    threads.emplace_back([&ring, number] {
      for (std::uint64_t i = 0; i < kEach; ++i) ring.write_published(number, number << 20U | i);
    });
  std::uint64_t found = 0;
  const auto look = [&] {
    for (const TraceRecord& record : read(reader)) {
      EXPECT_EQ(record.sequence >> 20U, record.publisher);
      ++found;
    }
  };
  while (found < kEach) look();
  for (std::thread& thread : threads) thread.join();
  look();
  EXPECT_EQ(found + reader.overwritten() + reader.incomplete(), 3 * kEach);
}

// The memory of a ring, as a process could write it that lies.
struct Forged {
  platform::Fd memfd = platform::create_sealed_memfd("forged", kTraceBytes);
  platform::Mapping mapping{memfd.get(), kTraceBytes, platform::Mapping::Access::kReadWrite};
  void set_next(std::uint64_t next) const { std::memcpy(mapping.data(), &next, sizeof next); }
};

TEST(TraceReader, reads_no_more_than_a_ring_of_a_process_that_lies_about_its_index) {
  const Forged forged;
  TraceReader reader(forged.memfd);
  std::vector<TraceRecord> records;
  for (const std::uint64_t next : {std::uint64_t{1} << 63U, ~std::uint64_t{0}, std::uint64_t{3}}) {
    forged.set_next(next);
    reader.read(records);
    EXPECT_TRUE(records.empty());
    EXPECT_LE(reader.incomplete(), kTraceRecords);
  }
}

TEST(TraceReader, skips_garbage_and_events_that_it_does_not_know) {
  const Forged forged;
  std::mt19937 random(1);
  for (std::size_t i = kTraceHeaderBytes; i < kTraceBytes; ++i)
    forged.mapping.data()[i] = static_cast<std::byte>(random());
  TraceWords words{};
  words[2] = 99;  // an event
  words[0] = trace_stamp(0, words);
  std::memcpy(forged.mapping.data() + kTraceHeaderBytes, words.data(), sizeof words);
  forged.set_next(100);
  TraceReader reader(forged.memfd);
  EXPECT_TRUE(read(reader).empty());
  EXPECT_EQ(reader.incomplete(), 99U);
}

TEST(TraceReader, reads_a_record_that_was_being_written_when_it_is_whole) {
  const Forged forged;
  TraceReader reader(forged.memfd);
  forged.set_next(1);
  EXPECT_TRUE(read(reader).empty());
  EXPECT_EQ(reader.incomplete(), 1U);
  TraceWords words{};
  words[2] = static_cast<std::uint64_t>(TraceEvent::kUse);
  words[0] = trace_stamp(0, words);
  std::memcpy(forged.mapping.data() + kTraceHeaderBytes, words.data(), sizeof words);
  EXPECT_EQ(read(reader).size(), 1U);
  EXPECT_EQ(reader.incomplete(), 0U);
}

TEST(TraceReader, refuses_what_is_no_ring) {
  const platform::Fd small = platform::create_sealed_memfd("small", 4096);
  EXPECT_THROW(TraceReader reader(small), Error);
  const platform::Fd unsealed(::memfd_create("unsealed", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(unsealed.get(), kTraceBytes), 0);
  EXPECT_THROW(TraceReader reader(unsealed), Error);
}

}  // namespace
}  // namespace tensorbus::link
