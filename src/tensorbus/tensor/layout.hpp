#pragma once

#include <cstddef>
#include <cstdint>
#include <tensorbus/values/layout.hpp>  // as programs see it

#include "tensorbus/platform/export.hpp"

namespace tensorbus::tensor {

// Returns true if a copy of `packed_bytes` of elements may keep its holes and take `bytes`: at most
// 64 KiB, or at most four times `packed_bytes`.
constexpr bool holes_are_cheap(std::size_t bytes, std::size_t packed_bytes) noexcept {
  return bytes <= (std::size_t{64} << 10) || bytes / 4 <= packed_bytes;
}

// Returns the layout for a copy: `layout`, or row-major without holes if its holes are too large.
TENSORBUS_API Layout layout_of_copy(const Layout& layout);

// Selects whether a copy writes through the caches or past them (platform/streaming_copy.hpp).
enum class Stores : std::uint8_t { kOrdinary, kNonTemporal };

// Copies elements into the layout `copy`; the holes between them may be written too. Both addresses
// are those of the first element. `copy` has the shape and dtype of `layout`, and its own strides.
TENSORBUS_API void copy_elements(std::byte* target, const Layout& copy, const std::byte* source,
                                 const Layout& layout, Stores stores);

}  // namespace tensorbus::tensor
