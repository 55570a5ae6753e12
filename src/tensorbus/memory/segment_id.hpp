#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace tensorbus::memory {

enum class SegmentKind : std::uint8_t {
  kHost,     // of an arena in main memory
  kDevice,   // of an arena on a GPU
  kForeign,  // of a GPU, made by another allocator
  kFile,     // part of a file
  kNone,
};

// Identifies a segment among all segments of its owner. It is sent as its number, which includes
// the kind. A peer may send any number.
struct SegmentId {
  static constexpr std::uint32_t kMaxDevices = 512;
  static constexpr std::uint32_t kMaxOfDevice = 1 << 20;
  static constexpr std::uint32_t kMaxForeign = 1 << 29;

  std::uint32_t number = 0;

  constexpr SegmentId(std::uint32_t of = 0) noexcept : number(of) {}
  static constexpr SegmentId host(std::uint32_t index) noexcept { return index; }
  // A segment of a pool whose memory borrowers may write to.
  static constexpr SegmentId writable_host(std::uint32_t index) noexcept {
    return kFirstWritable + index;
  }
  static constexpr SegmentId device(std::uint32_t ordinal, std::uint32_t index) noexcept {
    return kFirstOfDevices + ordinal * kMaxOfDevice + index;
  }
  static constexpr SegmentId foreign(std::uint32_t index) noexcept { return kFirstForeign + index; }
  static constexpr SegmentId file(std::uint32_t index) noexcept { return kFirstFile + index; }
  static constexpr SegmentId none() noexcept { return ~std::uint32_t{0}; }

  constexpr SegmentKind kind() const noexcept {
    if (number < kFirstOfDevices) return SegmentKind::kHost;
    if (number < kFirstForeign) return SegmentKind::kDevice;
    if (number < kFirstFile) return SegmentKind::kForeign;
    return *this == none() ? SegmentKind::kNone : SegmentKind::kFile;
  }
  // Returns true if its blocks may share pages with others; else they have whole pages.
  constexpr bool has_small_blocks() const noexcept { return number < kFirstWritable; }
  constexpr bool on_device() const noexcept {
    return kind() == SegmentKind::kDevice || kind() == SegmentKind::kForeign;
  }
  // Returns the GPU of a segment of kDevice.
  constexpr int ordinal() const noexcept {
    return static_cast<int>((number - kFirstOfDevices) / kMaxOfDevice);
  }

  void visit(auto& archive) { archive(number); }
  auto operator<=>(const SegmentId&) const = default;

 private:
  static constexpr std::uint32_t kFirstWritable = 0x20000000;  // no host arena has so many segments
  static constexpr std::uint32_t kFirstOfDevices = 0x40000000;  // nor so many writable ones
  static constexpr std::uint32_t kFirstForeign = kFirstOfDevices + kMaxDevices * kMaxOfDevice;
  static constexpr std::uint32_t kFirstFile = kFirstForeign + kMaxForeign;
};
static_assert(SegmentId::foreign(0).number == 0x60000000 &&
              SegmentId::file(0).number == 0x80000000 && sizeof(SegmentId) == 4);

}  // namespace tensorbus::memory

template <>
struct std::hash<tensorbus::memory::SegmentId> {
  std::size_t operator()(tensorbus::memory::SegmentId id) const noexcept { return id.number; }
};
