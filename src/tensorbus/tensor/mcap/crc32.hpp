#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tensorbus/platform/export.hpp"

namespace tensorbus::tensor::mcap {

// Returns the CRC-32 of zlib and MCAP (polynomial 0xEDB88320). `before`: the CRC of the preceding
// bytes; 0 if there are none.
TENSORBUS_API std::uint32_t crc32(std::span<const std::byte> bytes,
                                  std::uint32_t before = 0) noexcept;

}  // namespace tensorbus::tensor::mcap
