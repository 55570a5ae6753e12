#pragma once

#include <cstddef>
#include <cstdint>
#include <tensorbus/layout.hpp>  // as programs see it

#include "tensorbus/platform/export.hpp"

namespace tensorbus {

// May a copy of elements that need `packed_bytes` take `bytes`, for the holes between them? Up to
// four times as many, and 64 KiB in any case.
constexpr bool holes_are_cheap(std::size_t bytes, std::size_t packed_bytes) noexcept {
  return bytes <= (std::size_t{64} << 10) || bytes / 4 <= packed_bytes;
}

// How a layout is kept when its elements are copied: as it is, unless its holes are not cheap; then
// packed, row-major.
TENSORBUS_API Layout layout_of_copy(const Layout& layout);

// How a copy is written: through the caches, or past them (platform/streaming_copy.hpp).
enum class Stores : std::uint8_t { kOrdinary, kNonTemporal };

// Copies elements to where `copy` has them; the holes between them may be written too. Both
// addresses are those of the first element. `copy` has the shape and the dtype of `layout`, and
// strides of its own.
TENSORBUS_API void copy_elements(std::byte* target, const Layout& copy, const std::byte* source,
                                 const Layout& layout, Stores stores);

}  // namespace tensorbus
