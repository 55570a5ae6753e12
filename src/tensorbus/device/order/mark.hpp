#pragma once

#include <cstdint>

namespace tensorbus::device {

// A point in the work of a stream. It is reached when a counter of a timeline is at least `value`.
// It is sent as one number; 0 means no mark.
struct Mark {
  static constexpr std::uint32_t kSlots = 512;  // of one side of a timeline
  static constexpr int kValueBits = 54;
  static constexpr std::uint64_t kMaxValue = (std::uint64_t{1} << kValueBits) - 1;

  std::uint32_t slot = 0;
  std::uint64_t value = 0;  // from 1 on; 0: no mark, always reached

  explicit operator bool() const noexcept { return value != 0; }
  std::uint64_t packed() const noexcept {
    return value == 0 ? 0 : std::uint64_t{slot} << kValueBits | value;
  }
  // Decodes any number, without checks.
  static constexpr Mark of(std::uint64_t packed) noexcept {
    return {static_cast<std::uint32_t>(packed >> kValueBits), packed & kMaxValue};
  }
  // Throws Error(kProtocol) if the slot does not exist.
  static Mark unpack(std::uint64_t packed);
  bool operator==(const Mark&) const = default;
};

}  // namespace tensorbus::device
