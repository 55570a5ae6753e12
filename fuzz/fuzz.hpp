#pragma once

// The shared parts of the fuzz targets: an input that is read piece by piece, and accepts(), for
// functions that may refuse an input.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "tensorbus/platform/check.hpp"
#include "tensorbus/platform/error.hpp"

// Defined by each target; called by libFuzzer or replay.cpp. A target keeps no state that could
// change the result of a later input.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace tensorbus::fuzz {

// The fuzzer's bytes, taken from the front; zeros after the last byte. A statement may contain only
// one call: in f(input.byte(), input.byte()), the order depends on the compiler.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size)
      : rest_(reinterpret_cast<const std::byte*>(data), size) {}

  bool empty() const noexcept { return rest_.empty(); }
  std::span<const std::byte> bytes(std::size_t most) noexcept {
    const auto part = rest_.first(std::min(most, rest_.size()));
    rest_ = rest_.subspan(part.size());
    return part;
  }
  std::span<const std::byte> rest() noexcept { return bytes(rest_.size()); }
  template <typename T>
    requires std::is_trivially_copyable_v<T>
  T take() noexcept {
    T value{};
    const auto part = bytes(sizeof value);
    if (!part.empty()) std::memcpy(static_cast<void*>(&value), part.data(), part.size());
    return value;
  }
  std::uint8_t byte() noexcept { return take<std::uint8_t>(); }
  std::uint32_t below(std::uint32_t end) noexcept { return byte() % end; }
  bool flag() noexcept { return (byte() & 1) != 0; }
  // Returns a number that is often small, often near a power of two or the end of a segment, and
  // may be any number.
  std::uint64_t number() noexcept {
    static constexpr std::array<std::uint64_t, 4> kEnds = {4096, 5000, 8192, 12288};
    const std::uint8_t kind = byte();
    if (kind < 0x80) return kind;
    if (kind >= 0xf0) return kEnds[kind & 3] + take<std::int8_t>() / 8;
    const std::uint64_t power = std::uint64_t{1} << (kind & 63);
    return kind < 0xc0 ? take<std::uint64_t>() : power + take<std::int8_t>();
  }

 private:
  std::span<const std::byte> rest_;
};

inline std::string_view text_of(std::span<const std::byte> bytes) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Runs `action`. Returns true if it succeeded, false if it refused its input with `code`. Any other
// Error is a bug.
template <typename Action>
bool accepts(Action&& action, Code code = Code::kProtocol) {
  try {
    std::forward<Action>(action)();
    return true;
  } catch (const Error& error) {
    check(error.code() == code);
    check(*error.what() != '\0');
    return false;
  }
}

}  // namespace tensorbus::fuzz
