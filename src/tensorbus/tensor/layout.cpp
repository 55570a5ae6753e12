#include "tensorbus/tensor/layout.hpp"

#include <cstring>
#include <limits>
#include <string>

#include "tensorbus/platform/error.hpp"

namespace tensorbus {
namespace {

constexpr std::int64_t kMaxBytes = std::numeric_limits<std::int64_t>::max() / 2;

[[noreturn]] void refuse(const std::string& why) {
  throw Error(Code::kInvalidArgument, "tensor: " + why);
}

[[gnu::always_inline]] inline std::int64_t multiplied(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product) || product > kMaxBytes || product < -kMaxBytes)
    refuse("shape and strides reach beyond 2^62 bytes");
  return product;
}

// Bytes of an element, if a layout can be of this dtype and so many dimensions.
std::int64_t checked_item(DType dtype, std::size_t dims) {
  const auto item = static_cast<std::int64_t>(item_bytes(dtype));
  if (item == 0) refuse("unknown dtype number " + std::to_string(static_cast<int>(dtype)));
  if (dims > kMaxDims)
    refuse(std::to_string(dims) + " dimensions, more than " + std::to_string(kMaxDims));
  return item;
}

// A size as a factor of strides: PyTorch and NumPy count an empty dimension as 1 there.
std::int64_t counted(std::int64_t size) {
  if (size < 0) refuse("negative size " + std::to_string(size));
  return std::max<std::int64_t>(size, 1);
}

// Copies dimension `axis` and all inside it.
void copy_axis(std::byte* target, const Layout& copy, const std::byte* source, const Layout& layout,
               std::size_t axis, std::size_t item) {
  if (axis == layout.shape.size()) {
    std::memcpy(target, source, item);
    return;
  }
  const auto count = static_cast<std::size_t>(layout.shape[axis]);
  const bool innermost = axis + 1 == layout.shape.size();
  if (innermost && layout.strides[axis] == 1 && copy.strides[axis] == 1) {
    std::memcpy(target, source, count * item);
    return;
  }
  // The stride of a dimension of size 1 says nothing, and may be anything.
  const std::int64_t scale = count > 1 ? static_cast<std::int64_t>(item) : 0;
  const std::int64_t target_step = copy.strides[axis] * scale;
  const std::int64_t source_step = layout.strides[axis] * scale;
  for (std::size_t i = 0; i < count; ++i, target += target_step, source += source_step)
    copy_axis(target, copy, source, layout, axis + 1, item);
}

}  // namespace

Layout Layout::contiguous(DType dtype, Dims shape, TensorFlags flags) {
  const std::int64_t item = checked_item(dtype, shape.size());
  Layout layout{dtype, std::move(shape), {}, flags};
  layout.strides = Dims(layout.shape.size());
  std::int64_t elements = 1;
  for (std::size_t i = layout.shape.size(); i-- > 0;) {
    layout.strides[i] = elements;
    elements = multiplied(elements, counted(layout.shape[i]));
  }
  multiplied(elements, item);
  return layout;
}

std::size_t Layout::elements() const noexcept {
  std::size_t count = 1;
  for (const std::int64_t size : shape) count *= static_cast<std::size_t>(size);
  return count;
}

bool Layout::is_contiguous() const noexcept {
  std::int64_t expected = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (strides[i] != expected) return false;
    expected *= std::max<std::int64_t>(shape[i], 1);
  }
  return true;
}

ByteSpan span_of(const Layout& layout) {
  const std::int64_t item = checked_item(layout.dtype, layout.shape.size());
  if (layout.shape.size() != layout.strides.size()) refuse("as many strides as sizes are needed");
  std::int64_t elements = 1;
  bool empty = false;
  bool contiguous = true;
  for (std::size_t i = layout.shape.size(); i-- > 0;) {
    empty |= layout.shape[i] == 0;
    contiguous &= layout.strides[i] == elements;
    elements = multiplied(elements, counted(layout.shape[i]));
  }
  const std::int64_t packed_bytes = multiplied(elements, item);
  if (empty) return {};
  if (contiguous) return {0, packed_bytes};
  ByteSpan span{0, item};
  for (std::size_t i = 0; i < layout.shape.size(); ++i) {
    const std::int64_t reach = multiplied(multiplied(layout.shape[i] - 1, layout.strides[i]), item);
    (reach < 0 ? span.begin : span.end) += reach;
    if (span.end > kMaxBytes || span.begin < -kMaxBytes)
      refuse("shape and strides reach beyond 2^62 bytes");
  }
  return span;
}

Layout layout_of_copy(const Layout& layout) {
  if (holes_are_cheap(span_of(layout).bytes(), layout.packed_bytes())) return layout;
  return Layout::contiguous(layout.dtype, layout.shape, layout.flags);
}

void copy_elements(std::byte* target, const Layout& copy, const std::byte* source,
                   const Layout& layout) {
  const ByteSpan span = span_of(layout);
  if (span.bytes() == 0) return;
  if (span.bytes() <= layout.packed_bytes() && copy.strides == layout.strides)
    std::memcpy(target + span.begin, source + span.begin, span.bytes());
  else
    copy_axis(target, copy, source, layout, 0, item_bytes(layout.dtype));
}

}  // namespace tensorbus
