#pragma once

#include <cstddef>
#include <cstdint>

#include "tensorbus/platform/export.hpp"
#include "tensorbus/tensor/dims.hpp"
#include "tensorbus/tensor/dtype.hpp"

namespace tensorbus {

// What a tensor is beside its numbers. The values travel in descriptors.
enum class TensorFlags : std::uint8_t {
  kNone = 0,
  kRequiresGrad = 2,
  kFromTorch = 4,
  kFromNumpy = 8,
  kParameter = 16,
  kConjugate = 32,
  kNegative = 64,
};
constexpr TensorFlags operator|(TensorFlags a, TensorFlags b) noexcept {
  return static_cast<TensorFlags>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
constexpr bool has(TensorFlags flags, TensorFlags flag) noexcept {
  return (static_cast<unsigned>(flags) & static_cast<unsigned>(flag)) != 0;
}

// How the elements of a tensor lie in memory. Strides are in elements and may be zero or negative.
struct TENSORBUS_API Layout {
  DType dtype = DType::kUInt8;
  Dims shape;
  Dims strides;
  TensorFlags flags = TensorFlags::kNone;

  // Row-major without gaps. Throws Error(kInvalidArgument) for a negative size or one whose bytes
  // do not fit into 63 bits.
  static Layout contiguous(DType dtype, Dims shape, TensorFlags flags = TensorFlags::kNone);

  std::size_t elements() const noexcept;
  std::size_t packed_bytes() const noexcept { return elements() * item_bytes(dtype); }
  // Are the strides exactly those that contiguous() writes for this shape?
  bool is_contiguous() const noexcept;

  friend bool operator==(const Layout& a, const Layout& b) noexcept {
    return a.dtype == b.dtype && a.shape == b.shape && a.strides == b.strides && a.flags == b.flags;
  }
};

// The bytes that a layout touches, relative to its first element.
struct ByteSpan {
  std::int64_t begin = 0;  // zero or negative
  std::int64_t end = 0;
  std::size_t bytes() const noexcept { return static_cast<std::size_t>(end - begin); }
};

// Throws Error(kInvalidArgument) naming what is wrong: unknown dtype, too many dimensions, sizes
// and strides of different length, a negative size, an overflow. Takes input of any origin.
TENSORBUS_API ByteSpan span_of(const Layout& layout);

// May a copy of elements that need `packed_bytes` take `bytes`, for the holes between them? Up to
// four times as many, and 64 KiB in any case.
constexpr bool holes_are_cheap(std::size_t bytes, std::size_t packed_bytes) noexcept {
  return bytes <= (std::size_t{64} << 10) || bytes / 4 <= packed_bytes;
}

// How a layout is kept when its elements are copied: as it is, unless its holes are not cheap; then
// packed, row-major.
TENSORBUS_API Layout layout_of_copy(const Layout& layout);

// Copies elements to where `copy` has them; the holes between them may be written too. Both
// addresses are those of the first element. `copy` has the shape and the dtype of `layout`, and
// strides of its own.
TENSORBUS_API void copy_elements(std::byte* target, const Layout& copy, const std::byte* source,
                                 const Layout& layout);

}  // namespace tensorbus
