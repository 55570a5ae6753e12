#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensorbus/platform/export.hpp"

namespace tensorbus::recording {

// How the records of a chunk are compressed. The libraries are loaded when they are first needed:
// nothing else of the core depends on them.
enum class Compression : std::uint8_t { kNone, kZstd, kLz4 };

// As MCAP names it: "", "zstd", "lz4".
std::string_view name_of(Compression how);
// Throws Error(kUnsupported) for any other name.
TENSORBUS_API Compression compression_named(std::string_view name);

// Throws Error(kUnsupported) that names the library, and Debian's package, if it cannot be loaded.
void require_library(Compression how);

// Appends `bytes`, compressed, to `to`. Throws as require_library().
void compress(Compression how, std::span<const std::byte> bytes, std::vector<std::byte>& to);
// Fills all of `to`. Throws Error(kInvalidArgument) if the bytes are damaged, or are fewer or more
// than these; as require_library().
void decompress(Compression how, std::span<const std::byte> bytes, std::span<std::byte> to);

}  // namespace tensorbus::recording
