#pragma once

#include <cstdint>
#include <tensorbus/id.hpp>

#include "tensorbus/link/trace/trace_record.hpp"
#include "tensorbus/platform/export.hpp"
#include "tensorbus/platform/fd.hpp"
#include "tensorbus/platform/files/mapping.hpp"
#include "tensorbus/platform/fork_guard.hpp"

namespace tensorbus::link {

// The writers' end of a trace ring. Publishers, subscribers and traced samples share it. All
// threads may write, without waiting for each other or for the tracer.
class TraceRing {
 public:
  // `self`: the participant whose publishers write. Throws Error(kOutOfMemory).
  explicit TraceRing(const Id& self);

  // Returns a descriptor to be read by a tracer.
  platform::Fd descriptor() const;

  // Writes that a sample of a publisher of this participant is about to be published, and its
  // parents, which the thread has named (trace_parents.hpp).
  void write_published(std::uint32_t publisher, std::uint64_t sequence) noexcept;
  // Writes another event of a sample.
  TENSORBUS_API void write(TraceEvent event, const SampleName& sample) noexcept;

 private:
  void write(TraceRecord record) noexcept;

  const std::uint32_t fork_generation_ = platform::fork_generation();
  const Id self_;
  const platform::Fd memfd_;
  const platform::Mapping mapping_;
};

}  // namespace tensorbus::link
