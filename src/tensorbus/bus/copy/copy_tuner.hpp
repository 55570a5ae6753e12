#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "tensorbus/platform/clock.hpp"
#include "tensorbus/platform/mutex.hpp"
#include "tensorbus/tensor/layout.hpp"

namespace tensorbus::bus {

// Finds out by trials which stores make the copies of one publisher faster. This cannot be known in
// advance. It depends on whether a subscriber on another core reads the copies (then each cache
// line must be taken back from that core), how far away that core is, whether a copy fits into the
// caches, and the processor (docs/internals/decisions/0016-copies-are-tuned.md).
//
// One kind of stores is used for a period of copies. Then the other kind is tried for kTrial
// copies; it is used from then on if it took a tenth less time. While nothing changes, each period
// is twice as long as the one before, up to kLongestPeriod. Copies of less than half or more than
// twice the size restart the comparison. Thread-safe.
class CopyTuner {
 public:
  static constexpr std::uint32_t kTrial = 4;  // copies
  // Only the last copies of a trial or period count: by then, the effects of the other stores on
  // the caches are gone.
  static constexpr std::uint32_t kJudged = 3;
  static constexpr std::uint32_t kFirstPeriod = 64;
  static constexpr std::uint32_t kLongestPeriod = 4096;

  // Calls `copy`, a function of Stores that copies `bytes` bytes. Small copies use ordinary stores:
  // readers get them faster from the writer's caches than from memory.
  template <typename Copy>
  void run(std::size_t bytes, Copy copy) {
    if (bytes < kWorthTuning) return copy(tensor::Stores::kOrdinary);
    const Turn turn = begin(bytes);
    if (!turn.judged) {
      copy(turn.stores);
      return end(turn, {});
    }
    const auto start = platform::Clock::now();
    copy(turn.stores);
    end(turn, platform::Clock::now() - start);
  }

  static constexpr std::size_t kWorthTuning = std::size_t{64} << 10;

  // The two steps of run().
  struct Turn {
    tensor::Stores stores = tensor::Stores::kOrdinary;
    bool judged = false;  // its duration counts
    std::size_t bytes = 0;
  };
  Turn begin(std::size_t bytes);
  void end(const Turn& turn, std::chrono::nanoseconds took);

 private:
  static constexpr double kNone = std::numeric_limits<double>::infinity();

  tensor::Stores in_turn() const noexcept TB_REQUIRES(mutex_);
  void end_phase() noexcept TB_REQUIRES(mutex_);

  platform::Mutex mutex_;
  std::size_t bytes_ TB_GUARDED_BY(mutex_) = 0;  // of the copy with which the comparison began
  tensor::Stores chosen_ TB_GUARDED_BY(mutex_) = tensor::Stores::kOrdinary;
  bool trying_ TB_GUARDED_BY(mutex_) = false;          // tries the other kind of stores
  std::uint32_t left_ TB_GUARDED_BY(mutex_) = kTrial;  // copies left in this trial or period
  std::uint32_t period_ TB_GUARDED_BY(mutex_) = kFirstPeriod;
  double best_ TB_GUARDED_BY(mutex_) = kNone;         // ns per byte of the fastest judged copy
  double chosen_best_ TB_GUARDED_BY(mutex_) = kNone;  // best_ of the period before this trial
};

}  // namespace tensorbus::bus
