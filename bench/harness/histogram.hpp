#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace bench {

// Counts durations in buckets less than 1 % wide, whatever their size. Zero bytes are an empty one,
// so it may lie in fresh shared memory. One writer; read when the writer is done.
class Histogram {
 public:
  void add(std::uint64_t value) noexcept {
    ++counts_[bucket_of(value)];
    ++count_;
  }
  void add(const Histogram& other) noexcept {
    for (std::size_t bucket = 0; bucket < kBuckets; ++bucket)
      counts_[bucket] += other.counts_[bucket];
    count_ += other.count_;
  }

  std::uint64_t count() const noexcept { return count_; }

  // The value that `part` (0 to 1) of all values do not exceed.
  double percentile(double part) const noexcept {
    const auto wanted = static_cast<std::uint64_t>(part * static_cast<double>(count_));
    std::uint64_t seen = 0;
    for (std::size_t bucket = 0; bucket < kBuckets; ++bucket) {
      seen += counts_[bucket];
      if (seen > wanted || (seen == count_ && seen != 0)) return middle_of(bucket);
    }
    return 0;
  }

  void clear() noexcept { *this = Histogram(); }

 private:
  // A value below kSteps has its own bucket; each further power of two is cut into kSteps of them.
  static constexpr unsigned kStepBits = 7;
  static constexpr std::uint64_t kSteps = 1U << kStepBits;
  static constexpr std::size_t kBuckets = (40 - kStepBits) * kSteps;  // 2^39 and more: the last one

  static std::size_t bucket_of(std::uint64_t value) noexcept {
    if (value < kSteps) return value;
    const unsigned shift = static_cast<unsigned>(std::bit_width(value)) - kStepBits - 1;
    return std::min<std::size_t>((shift << kStepBits) + (value >> shift), kBuckets - 1);
  }
  static double middle_of(std::size_t bucket) noexcept {
    if (bucket < 2 * kSteps) return static_cast<double>(bucket);
    const std::size_t shift = (bucket >> kStepBits) - 1;
    const std::uint64_t low = (bucket - (shift << kStepBits)) << shift;
    return static_cast<double>(low) + static_cast<double>(std::uint64_t{1} << shift) / 2;
  }

  std::uint64_t count_ = 0;
  std::array<std::uint64_t, kBuckets> counts_{};
};

}  // namespace bench
