#pragma once

#include <cstddef>

#include "tensorbus/platform/export.hpp"

namespace tensorbus::platform {

// Copies memory past the caches, with non-temporal stores. If another core has read the memory at
// `target`, an ordinary store first fetches its cache line from that core, one line after the
// other. Non-temporal stores replace whole lines and do not wait.
//
// These stores are unordered with later stores of this thread until end_streaming(). On processors
// other than x86, this is memcpy().
TENSORBUS_API void streaming_copy(std::byte* target, const std::byte* source,
                                  std::size_t bytes) noexcept;
TENSORBUS_API void end_streaming() noexcept;

}  // namespace tensorbus::platform
