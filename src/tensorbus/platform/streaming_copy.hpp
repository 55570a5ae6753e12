#pragma once

#include <cstddef>

#include "tensorbus/platform/export.hpp"

namespace tensorbus::platform {

// memcpy() that writes past the caches, by non-temporal stores. Where another core has read what
// lies at `target`, an ordinary store has to take each line back from it first, one after the
// other; these replace whole lines, and wait for none.
//
// They are in no order with what this thread stores later, until end_streaming(). On a processor
// for which we have none, this is memcpy().
TENSORBUS_API void streaming_copy(std::byte* target, const std::byte* source,
                                  std::size_t bytes) noexcept;
TENSORBUS_API void end_streaming() noexcept;

}  // namespace tensorbus::platform
