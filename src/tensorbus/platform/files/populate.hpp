#pragma once

#include <cstddef>
#include <span>

#include "tensorbus/platform/export.hpp"

namespace tensorbus::platform {

// Maps the pages of these bytes at once, for a caller that reads all of them. This is faster than a
// page fault for each page or for each 16 pages. A hint: it does nothing before Linux 5.14, or for
// pages that do not exist.
TENSORBUS_API void map_pages_to_read(std::span<const std::byte> bytes) noexcept;

}  // namespace tensorbus::platform
