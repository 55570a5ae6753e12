#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <tensorbus/values/dims.hpp>
#include <tensorbus/values/dtype.hpp>
#include <tensorbus/values/error.hpp>
#include <utility>

namespace tensorbus::inline v0 {

// Attributes of a tensor besides its elements. The values are part of the protocol.
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
struct Layout {
  DType dtype = DType::kUInt8;
  Dims shape;
  Dims strides;
  TensorFlags flags = TensorFlags::kNone;

  // Returns a row-major layout without gaps. Throws Error(kInvalidArgument) for a negative size, or
  // if its bytes exceed 63 bits.
  static Layout contiguous(DType dtype, Dims shape, TensorFlags flags = TensorFlags::kNone);

  std::size_t elements() const noexcept;
  std::size_t packed_bytes() const noexcept { return elements() * item_bytes(dtype); }
  // Returns true if the strides are exactly those of contiguous() for this shape.
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

// Checks a layout, which may be untrusted, and returns the bytes that it touches. Throws
// Error(kInvalidArgument), which names the fault: unknown dtype, too many dimensions, sizes and
// strides of different length, a negative size, an overflow.
ByteSpan span_of(const Layout& layout);

namespace internal {

inline constexpr std::int64_t kMaxTensorBytes = std::numeric_limits<std::int64_t>::max() / 2;

[[noreturn]] inline void refuse_tensor(const std::string& why) {
  throw Error(Code::kInvalidArgument, "tensor: " + why);
}

[[gnu::always_inline]] inline std::int64_t multiplied(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product) || product > kMaxTensorBytes ||
      product < -kMaxTensorBytes)
    refuse_tensor("shape and strides reach beyond 2^62 bytes");
  return product;
}

// Returns the bytes of an element; throws if no layout can have this dtype or so many dimensions.
inline std::int64_t checked_item(DType dtype, std::size_t dims) {
  const auto item = static_cast<std::int64_t>(item_bytes(dtype));
  if (item == 0) refuse_tensor("unknown dtype number " + std::to_string(static_cast<int>(dtype)));
  if (dims > kMaxDims)
    refuse_tensor(std::to_string(dims) + " dimensions, more than " + std::to_string(kMaxDims));
  return item;
}

// Returns the factor by which a size multiplies strides. It is 1 for an empty dimension, as in
// PyTorch and NumPy.
inline std::int64_t counted(std::int64_t size) {
  if (size < 0) refuse_tensor("negative size " + std::to_string(size));
  return std::max<std::int64_t>(size, 1);
}

// Sets the strides of contiguous(), and throws what contiguous() throws. Returns span_of(layout).
inline ByteSpan lay_out_in_rows(Layout& layout) {
  const std::int64_t item = checked_item(layout.dtype, layout.shape.size());
  layout.strides = Dims(layout.shape.size());
  const std::int64_t* const sizes = layout.shape.begin();
  std::int64_t* const strides = layout.strides.begin();
  std::int64_t elements = 1;
  bool empty = false;
  for (std::size_t i = layout.shape.size(); i-- > 0;) {
    empty |= sizes[i] == 0;
    strides[i] = elements;
    elements = multiplied(elements, counted(sizes[i]));
  }
  const std::int64_t bytes = multiplied(elements, item);
  return {0, empty ? 0 : bytes};
}

}  // namespace internal

inline Layout Layout::contiguous(DType dtype, Dims shape, TensorFlags flags) {
  Layout layout{dtype, std::move(shape), {}, flags};
  internal::lay_out_in_rows(layout);
  return layout;
}

inline std::size_t Layout::elements() const noexcept {
  std::size_t count = 1;
  for (const std::int64_t size : shape) count *= static_cast<std::size_t>(size);
  return count;
}

inline bool Layout::is_contiguous() const noexcept {
  std::int64_t expected = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (strides[i] != expected) return false;
    expected *= std::max<std::int64_t>(shape[i], 1);
  }
  return true;
}

inline ByteSpan span_of(const Layout& layout) {
  const std::int64_t item = internal::checked_item(layout.dtype, layout.shape.size());
  if (layout.shape.size() != layout.strides.size())
    internal::refuse_tensor("expected as many strides as sizes");
  const std::int64_t* const sizes = layout.shape.begin();
  const std::int64_t* const strides = layout.strides.begin();
  std::int64_t elements = 1;
  bool empty = false;
  bool contiguous = true;
  for (std::size_t i = layout.shape.size(); i-- > 0;) {
    empty |= sizes[i] == 0;
    contiguous &= strides[i] == elements;
    elements = internal::multiplied(elements, internal::counted(sizes[i]));
  }
  const std::int64_t packed_bytes = internal::multiplied(elements, item);
  if (empty) return {};
  if (contiguous) return {0, packed_bytes};
  ByteSpan span{0, item};
  for (std::size_t i = 0; i < layout.shape.size(); ++i) {
    const std::int64_t reach =
        internal::multiplied(internal::multiplied(sizes[i] - 1, strides[i]), item);
    (reach < 0 ? span.begin : span.end) += reach;
    if (span.end > internal::kMaxTensorBytes || span.begin < -internal::kMaxTensorBytes)
      internal::refuse_tensor("shape and strides reach beyond 2^62 bytes");
  }
  return span;
}

}  // namespace tensorbus::inline v0
