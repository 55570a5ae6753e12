#pragma once

#include <algorithm>
#include <chrono>

namespace tensorbus::inline v0 {
namespace internal {

// The time by which a blocking call returns. A very large timeout means "never".
class Deadline {
 public:
  explicit Deadline(std::chrono::nanoseconds timeout) noexcept
      : at_(timeout > kForever ? std::chrono::steady_clock::time_point::max()
                               : std::chrono::steady_clock::now() +
                                     std::max(timeout, std::chrono::nanoseconds::zero())) {}

  // Returns the time left, at most `slice`; 0 after the deadline.
  std::chrono::nanoseconds remaining(std::chrono::nanoseconds slice) const noexcept {
    if (at_ == std::chrono::steady_clock::time_point::max()) return slice;
    const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(
        at_ - std::chrono::steady_clock::now());
    return std::clamp(left, std::chrono::nanoseconds::zero(), slice);
  }
  bool passed() const noexcept {
    return at_ != std::chrono::steady_clock::time_point::max() &&
           std::chrono::steady_clock::now() >= at_;
  }

 private:
  static constexpr std::chrono::nanoseconds kForever = std::chrono::hours(24 * 365);
  std::chrono::steady_clock::time_point at_;
};

}  // namespace internal
}  // namespace tensorbus::inline v0
