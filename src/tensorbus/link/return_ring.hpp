#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "tensorbus/platform/step.hpp"

namespace tensorbus::link {

// Lease tokens on their way back from the borrower. It has a slot for every lease that can be
// outstanding on the link (a power of two), so the borrower never waits and never looks at the
// owner's position.
using ReturnWord = std::atomic<std::uint64_t>;

// The borrower's end. Not thread-safe: under the link's release mutex.
class ReturnRingWriter {
 public:
  ReturnRingWriter() = default;
  ReturnRingWriter(ReturnWord* tail, std::span<ReturnWord> tokens) : tail_(tail), tokens_(tokens) {}

  void push(std::uint64_t token) noexcept {
    tokens_[position_ & (tokens_.size() - 1)].store(token, std::memory_order_relaxed);
    platform::step("release.token_written");
    // Release: pairs with the acquire in drain(); our last read of the tensor comes first too.
    tail_->store(++position_, std::memory_order_release);
    platform::step("release.tail_moved");
  }

 private:
  ReturnWord* tail_ = nullptr;
  std::span<ReturnWord> tokens_;
  std::uint64_t position_ = 0;
};

// The owner's end. Not thread-safe: under the publisher's mutex.
class ReturnRingReader {
 public:
  ReturnRingReader() = default;
  ReturnRingReader(const ReturnWord* tail, std::span<const ReturnWord> tokens)
      : tail_(tail), tokens_(tokens) {}

  // Calls take(token) for everything that came back. False if the borrower's position makes no
  // sense: then the link is to be ended.
  template <typename Take>
  [[nodiscard]] bool drain(Take take) {
    const std::uint64_t tail = tail_->load(std::memory_order_acquire);  // pairs with push()
    if (tail - position_ > tokens_.size()) return false;
    for (; position_ != tail; ++position_)
      take(tokens_[position_ & (tokens_.size() - 1)].load(std::memory_order_relaxed));
    return true;
  }

 private:
  const ReturnWord* tail_ = nullptr;
  std::span<const ReturnWord> tokens_;
  std::uint64_t position_ = 0;
};

}  // namespace tensorbus::link
