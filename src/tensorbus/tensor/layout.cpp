#include "tensorbus/tensor/layout.hpp"

#include <algorithm>
#include <cstring>

#include "tensorbus/platform/streaming_copy.hpp"
#include "tensorbus/platform/threads/parallel_for.hpp"

namespace tensorbus::tensor {
namespace {

using CopyBytes = void (*)(std::byte* target, const std::byte* source, std::size_t bytes) noexcept;

void plain_copy(std::byte* target, const std::byte* source, std::size_t bytes) noexcept {
  std::memcpy(target, source, bytes);
}

// For fewer bytes, another core wakes too late to help.
constexpr std::size_t kWorthHelp = std::size_t{16} << 20;
constexpr std::size_t kPartBytes = std::size_t{256} << 10;

// Copies memory as one piece.
void copy_whole(std::byte* target, const std::byte* source, std::size_t bytes, Stores stores) {
  const auto copy = [&](std::size_t begin, std::size_t end) {
    if (stores == Stores::kOrdinary) return plain_copy(target + begin, source + begin, end - begin);
    platform::streaming_copy(target + begin, source + begin, end - begin);
    platform::end_streaming();
  };
  if (bytes < kWorthHelp) return copy(0, bytes);
  const std::size_t parts = (bytes + kPartBytes - 1) / kPartBytes;
  platform::parallel_for(
      parts, [&](std::size_t i) { copy(i * kPartBytes, std::min((i + 1) * kPartBytes, bytes)); });
}

// Copies dimension `axis` and all inner ones.
void copy_axis(std::byte* target, const Layout& copy, const std::byte* source, const Layout& layout,
               std::size_t axis, std::size_t item, CopyBytes copy_bytes) {
  if (axis == layout.shape.size()) {
    std::memcpy(target, source, item);
    return;
  }
  const auto count = static_cast<std::size_t>(layout.shape[axis]);
  const bool innermost = axis + 1 == layout.shape.size();
  if (innermost && layout.strides[axis] == 1 && copy.strides[axis] == 1) {
    copy_bytes(target, source, count * item);
    return;
  }
  // The stride of a dimension of size 1 has no meaning and may be anything.
  const std::int64_t scale = count > 1 ? static_cast<std::int64_t>(item) : 0;
  const std::int64_t target_step = copy.strides[axis] * scale;
  const std::int64_t source_step = layout.strides[axis] * scale;
  for (std::size_t i = 0; i < count; ++i, target += target_step, source += source_step)
    copy_axis(target, copy, source, layout, axis + 1, item, copy_bytes);
}

}  // namespace

Layout layout_of_copy(const Layout& layout) {
  if (holes_are_cheap(span_of(layout).bytes(), layout.packed_bytes())) return layout;
  return Layout::contiguous(layout.dtype, layout.shape, layout.flags);
}

void copy_elements(std::byte* target, const Layout& copy, const std::byte* source,
                   const Layout& layout, Stores stores) {
  const ByteSpan span = span_of(layout);
  if (span.bytes() == 0) return;
  if (span.bytes() <= layout.packed_bytes() && copy.strides == layout.strides)
    return copy_whole(target + span.begin, source + span.begin, span.bytes(), stores);
  const bool streams = stores == Stores::kNonTemporal;
  const CopyBytes copy_bytes = streams ? platform::streaming_copy : plain_copy;
  copy_axis(target, copy, source, layout, 0, item_bytes(layout.dtype), copy_bytes);
  if (streams) platform::end_streaming();
}

}  // namespace tensorbus::tensor
