#pragma once

#include <chrono>
#include <cstdint>
#include <tensorbus/internal/deadline.hpp>

namespace tensorbus::platform {

using Clock = std::chrono::steady_clock;

// Nanoseconds since the Unix epoch.
inline std::uint64_t wall_clock_ns() noexcept {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

using tensorbus::internal::Deadline;

}  // namespace tensorbus::platform
