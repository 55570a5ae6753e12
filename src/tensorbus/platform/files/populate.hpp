#pragma once

#include <cstddef>
#include <span>

#include "tensorbus/platform/export.hpp"

namespace tensorbus::platform {

// Maps the pages of these bytes of a mapping at once, for what reads all of them: a page fault for
// each, or for each sixteen, takes longer. A hint; without the call (before Linux 5.14), and where
// pages are missing, it does nothing.
TENSORBUS_API void map_pages_to_read(std::span<const std::byte> bytes) noexcept;

}  // namespace tensorbus::platform
