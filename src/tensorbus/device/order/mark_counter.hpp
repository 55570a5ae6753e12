#pragma once

#include <cstdint>

#include "tensorbus/device/order/mark.hpp"
#include "tensorbus/platform/atomic.hpp"

namespace tensorbus::device {

// One counter of a timeline, in memory that processes and GPUs share: the progress of its writer.
// Streams write this number and wait for it. Initially 0.
class MarkCounter {
 public:
  // Called after the work before the mark. Release: pairs with reached() and failed().
  void reach(std::uint64_t value) noexcept { word_.store(value, std::memory_order_release); }
  bool reached(std::uint64_t value) const noexcept {
    return word_.load(std::memory_order_acquire) >= value;
  }
  // Returns true if the writer was given up before it reached this value. If it was given up later,
  // the data that it wrote before the mark can be read.
  bool failed(std::uint64_t value) const noexcept {
    const std::uint64_t word = word_.load(std::memory_order_acquire);  // pairs with reach()
    return is_given_up(word) && (word & Mark::kMaxValue) < value;
  }

  // Called when the writer does not continue: all marks then count as reached. From then on only
  // this process writes the counter, or a peer that breaks the protocol. Relaxed: a thread that
  // reads this value still acquires from the writer, because the exchange continues the writer's
  // release sequence ([intro.races]).
  void give_up() noexcept {
    std::uint64_t seen = word_.load(std::memory_order_relaxed);
    while (!is_given_up(seen) &&
           !word_.compare_exchange_strong(seen, kGivenUp | (seen & Mark::kMaxValue),
                                          std::memory_order_relaxed, std::memory_order_relaxed)) {
    }
  }

 private:
  // Larger than any mark: GPUs compare by the sign of the difference. The low bits keep the
  // writer's last value.
  static constexpr std::uint64_t kGivenUp = std::uint64_t{1} << 62;

  static bool is_given_up(std::uint64_t word) noexcept {
    return (word & ~Mark::kMaxValue) == kGivenUp;
  }

  platform::Atomic<std::uint64_t> word_;
};
static_assert(sizeof(MarkCounter) == sizeof(std::uint64_t));

}  // namespace tensorbus::device
