#pragma once

#include <cstddef>

#include "tensorbus/platform/export.hpp"

namespace tensorbus::platform {

// Copies memory past the caches, by non-temporal stores. If another core has read the memory at
// `target`, each ordinary store must first take its cache line back from that core, one after the
// other. These stores replace whole lines and wait for none.
//
// Until end_streaming(), they have no order with later stores of this thread. On other processors
// than x86 this is memcpy().
TENSORBUS_API void streaming_copy(std::byte* target, const std::byte* source,
                                  std::size_t bytes) noexcept;
TENSORBUS_API void end_streaming() noexcept;

}  // namespace tensorbus::platform
