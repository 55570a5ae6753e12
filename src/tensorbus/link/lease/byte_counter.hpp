#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace tensorbus::link {

// Counts the bytes in use: a statistic. Counted objects may outlive the counter. The sum is also
// its own reference count, so that counting takes one locked instruction. Thread-safe.
//
//   ByteCounter in_flight;
//   CountedBytes image(in_flight, 24'883'200);
//   in_flight.bytes();  // 24'883'200, until `image` is destroyed
class ByteCounter {
 public:
  ByteCounter() : sum_(new Sum(kOwner)) {}
  ~ByteCounter() { subtract(sum_, kOwner); }
  ByteCounter(const ByteCounter&) = delete;
  ByteCounter& operator=(const ByteCounter&) = delete;

  std::uint64_t bytes() const noexcept { return sum_->load(std::memory_order_relaxed) - kOwner; }

 private:
  friend class CountedBytes;
  using Sum = std::atomic<std::uint64_t>;
  static constexpr std::uint64_t kOwner = std::uint64_t{1} << 63;  // more than all bytes

  // The caller that reaches 0 deletes the sum. Release and acquire: all other uses happen before.
  static void subtract(Sum* sum, std::uint64_t value) noexcept {
    if (sum->fetch_sub(value, std::memory_order_acq_rel) == value) delete sum;
  }

  Sum* const sum_;
};

// Counts `bytes` in a counter (or in none) while it exists.
class CountedBytes {
 public:
  CountedBytes() = default;
  CountedBytes(ByteCounter& counter, std::size_t bytes) noexcept : bytes_(bytes) {
    if (bytes == 0) return;
    sum_ = counter.sum_;
    sum_->fetch_add(bytes, std::memory_order_relaxed);  // the counter keeps the sum alive here
  }
  CountedBytes(CountedBytes&& other) noexcept
      : sum_(std::exchange(other.sum_, nullptr)), bytes_(other.bytes_) {}
  CountedBytes& operator=(CountedBytes other) noexcept {
    std::swap(sum_, other.sum_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~CountedBytes() {
    if (sum_ != nullptr) ByteCounter::subtract(sum_, bytes_);
  }

 private:
  ByteCounter::Sum* sum_ = nullptr;
  std::uint64_t bytes_ = 0;
};

}  // namespace tensorbus::link
