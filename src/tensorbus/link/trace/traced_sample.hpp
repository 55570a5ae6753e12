#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include "tensorbus/link/trace/trace_ring.hpp"

namespace tensorbus::link {

// Writes when a sample was received, first used and released: when this object is made, by
// note_use(), and when the object goes. The sample and its lease share it.
class TracedSample {
 public:
  TracedSample(std::shared_ptr<TraceRing> ring, const SampleName& name)
      : ring_(std::move(ring)), name_(name) {
    ring_->write(TraceEvent::kReceive, name_);
  }
  ~TracedSample() { ring_->write(TraceEvent::kRelease, name_); }
  TracedSample(const TracedSample&) = delete;
  TracedSample& operator=(const TracedSample&) = delete;

  // Relaxed: only one call writes, whichever.
  void note_use() const noexcept {
    if (!used_.exchange(true, std::memory_order_relaxed)) ring_->write(TraceEvent::kUse, name_);
  }

 private:
  const std::shared_ptr<TraceRing> ring_;
  const SampleName name_;
  mutable std::atomic<bool> used_{false};
};

}  // namespace tensorbus::link
