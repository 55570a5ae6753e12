#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace tensorbus::platform {

using Clock = std::chrono::steady_clock;

// Nanoseconds since the Unix epoch.
inline std::uint64_t wall_clock_ns() noexcept {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

// A point in time by which a blocking call returns. Huge timeouts mean "never".
class Deadline {
 public:
  explicit Deadline(std::chrono::nanoseconds timeout) noexcept
      : at_(timeout > kForever
                ? Clock::time_point::max()
                : Clock::now() + std::max(timeout, std::chrono::nanoseconds::zero())) {}

  // How long a wait may last that re-checks at least every `slice`; 0 when the time is over.
  std::chrono::nanoseconds remaining(std::chrono::nanoseconds slice) const noexcept {
    if (at_ == Clock::time_point::max()) return slice;
    const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(at_ - Clock::now());
    return std::clamp(left, std::chrono::nanoseconds::zero(), slice);
  }
  bool passed() const noexcept { return at_ != Clock::time_point::max() && Clock::now() >= at_; }

 private:
  static constexpr std::chrono::nanoseconds kForever = std::chrono::hours(24 * 365);
  Clock::time_point at_;
};

}  // namespace tensorbus::platform
