#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include "tensorbus/link/trace/trace_ring.hpp"

namespace tensorbus::link {

// Records the receipt of a sample (constructor), its first use (note_use()) and its release
// (destructor). The sample and its lease share it.
class TracedSample {
 public:
  TracedSample(std::shared_ptr<TraceRing> ring, const SampleName& name)
      : ring_(std::move(ring)), name_(name) {
    ring_->write(TraceEvent::kReceive, name_);
  }
  ~TracedSample() { ring_->write(TraceEvent::kRelease, name_); }
  TracedSample(const TracedSample&) = delete;
  TracedSample& operator=(const TracedSample&) = delete;

  // Relaxed: exactly one call writes; it does not matter which.
  void note_use() const noexcept {
    if (!used_.exchange(true, std::memory_order_relaxed)) ring_->write(TraceEvent::kUse, name_);
  }

 private:
  const std::shared_ptr<TraceRing> ring_;
  const SampleName name_;
  mutable std::atomic<bool> used_{false};
};

}  // namespace tensorbus::link
