#include "tensorbus/bus/copy/copy_tuner.hpp"

#include <algorithm>

namespace tensorbus::bus {
namespace {

constexpr double kClearlyLess = 0.9;

tensor::Stores other(tensor::Stores stores) noexcept {
  return stores == tensor::Stores::kOrdinary ? tensor::Stores::kNonTemporal
                                             : tensor::Stores::kOrdinary;
}

}  // namespace

tensor::Stores CopyTuner::in_turn() const noexcept { return trying_ ? other(chosen_) : chosen_; }

CopyTuner::Turn CopyTuner::begin(std::size_t bytes) {
  const platform::MutexLock lock(mutex_);
  if (bytes < bytes_ / 2 || bytes / 2 > bytes_) {
    bytes_ = bytes;
    chosen_ = tensor::Stores::kOrdinary;
    trying_ = false;
    left_ = kTrial;
    period_ = kFirstPeriod;
    best_ = kNone;
  }
  return {in_turn(), left_ <= kJudged, bytes};
}

void CopyTuner::end(const Turn& turn, std::chrono::nanoseconds took) {
  const platform::MutexLock lock(mutex_);
  if (turn.stores != in_turn()) return;  // another thread has ended the phase
  if (turn.judged)
    best_ = std::min(best_, static_cast<double>(took.count()) / static_cast<double>(turn.bytes));
  if (--left_ == 0) end_phase();
}

void CopyTuner::end_phase() noexcept {
  if (!trying_) {
    chosen_best_ = best_;
    left_ = kTrial;
  } else {
    const bool changes = best_ < kClearlyLess * chosen_best_;
    if (changes) chosen_ = other(chosen_);
    period_ = changes ? kFirstPeriod : std::min(2 * period_, kLongestPeriod);
    left_ = period_;
  }
  trying_ = !trying_;
  best_ = kNone;
}

}  // namespace tensorbus::bus
