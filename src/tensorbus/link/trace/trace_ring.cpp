#include "tensorbus/link/trace/trace_ring.hpp"

#include <unistd.h>

#include <atomic>
#include <bit>
#include <utility>

#include "tensorbus/link/trace/trace_parents.hpp"
#include "tensorbus/platform/clock.hpp"
#include "tensorbus/platform/error.hpp"
#include "tensorbus/platform/files/memfd.hpp"

namespace tensorbus::link {
namespace {

std::uint64_t now_ns() noexcept {
  return static_cast<std::uint64_t>(platform::Clock::now().time_since_epoch().count());
}

// Makes a system call each time: a cached number would be wrong in a forked child.
std::uint32_t this_thread() noexcept { return static_cast<std::uint32_t>(::gettid()); }

}  // namespace

TraceRing::TraceRing(const Id& self, memory::PeerCharge charge)
    : self_(self),
      charge_(std::move(charge)),
      memfd_(platform::create_sealed_memfd("tensorbus-trace", kTraceBytes)),
      mapping_(memfd_.get(), kTraceBytes, platform::Mapping::Access::kReadWrite) {
  if (!platform::reserve_pages(memfd_.get(), 0, kTraceBytes))
    throw Error(Code::kOutOfMemory, "the kernel has no memory for the ring of a trace");
}

platform::Fd TraceRing::take_descriptor() {
  const platform::Fd memfd = std::move(memfd_);
  return platform::reopen_read_only(memfd.get());
}

void TraceRing::write_published(std::uint32_t publisher, std::uint64_t sequence) noexcept {
  TraceRecord record{.time_ns = now_ns(),
                     .event = TraceEvent::kPublish,
                     .thread = this_thread(),
                     .participant = self_,
                     .publisher = publisher,
                     .sequence = sequence};
  write(record);
  record.event = TraceEvent::kParent;
  record.child_publisher = publisher;
  record.child_sequence = sequence;
  for (const SampleName& parent : TraceParents::of_this_thread()) {
    record.participant = parent.participant;
    record.publisher = parent.publisher;
    record.sequence = parent.sequence;
    write(record);
  }
}

void TraceRing::write(TraceEvent event, const SampleName& sample) noexcept {
  write({.time_ns = now_ns(),
         .event = event,
         .thread = this_thread(),
         .participant = sample.participant,
         .publisher = sample.publisher,
         .sequence = sample.sequence});
}

// Relaxed: a writer that falls a whole ring behind may write the same words as another writer. The
// reader checks each record by its stamp.
void TraceRing::write(TraceRecord record) noexcept {
  if (fork_generation_ != platform::fork_generation()) return;
  auto words = std::bit_cast<TraceWords>(record);
  auto* const next = reinterpret_cast<std::uint64_t*>(mapping_.data());
  const std::uint64_t index = std::atomic_ref(*next).fetch_add(1, std::memory_order_relaxed);
  words[0] = trace_stamp(index, words);
  auto* const first = reinterpret_cast<std::uint64_t*>(mapping_.data() + kTraceHeaderBytes) +
                      index % kTraceRecords * words.size();
  for (std::size_t i = 1; i < words.size(); ++i)
    std::atomic_ref(first[i]).store(words[i], std::memory_order_relaxed);
  std::atomic_ref(first[0]).store(words[0], std::memory_order_release);  // pairs with TraceReader
}

}  // namespace tensorbus::link
