#pragma once

#include <cstdint>
#include <tensorbus/values/id.hpp>

#include "tensorbus/link/trace/trace_record.hpp"
#include "tensorbus/memory/peer_budget.hpp"
#include "tensorbus/platform/export.hpp"
#include "tensorbus/platform/fd.hpp"
#include "tensorbus/platform/files/mapping.hpp"
#include "tensorbus/platform/fork_guard.hpp"

namespace tensorbus::link {

// The writers' end of a trace ring, shared by publishers, subscribers and traced samples. All
// threads may write, without waiting for each other or for the tracer.
class TraceRing {
 public:
  // `self`: the participant whose publishers write. `charge`: charged to the tracer while the ring
  // exists. Samples may keep the ring after the tracer has disconnected. Throws
  // Error(kOutOfMemory).
  explicit TraceRing(const Id& self, memory::PeerCharge charge = {});

  // Returns the descriptor for a tracer; the ring keeps none. Called once.
  platform::Fd take_descriptor();

  // Records that a publisher of this participant is about to publish a sample, and the sample's
  // parents, which the thread has set (trace_parents.hpp).
  void write_published(std::uint32_t publisher, std::uint64_t sequence) noexcept;
  // Records another event of a sample.
  TENSORBUS_API void write(TraceEvent event, const SampleName& sample) noexcept;

 private:
  void write(TraceRecord record) noexcept;

  const std::uint32_t fork_generation_ = platform::fork_generation();
  const Id self_;
  const memory::PeerCharge charge_;
  platform::Fd memfd_;  // until take_descriptor()
  const platform::Mapping mapping_;
};

}  // namespace tensorbus::link
