#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensorbus/platform/export.hpp"

namespace tensorbus::tensor::mcap {

// The compression of a chunk's records. The libraries are loaded at first use; nothing else in the
// core depends on them.
enum class Compression : std::uint8_t { kNone, kZstd, kLz4 };

// Returns MCAP's name: "", "zstd" or "lz4".
std::string_view name_of(Compression how);
// Throws Error(kUnsupported) for any other name.
TENSORBUS_API Compression compression_named(std::string_view name);

// Throws Error(kUnsupported) that names the library and its Debian package if it cannot be loaded.
void require_library(Compression how);

// Appends `bytes`, compressed, to `to`. Throws as require_library() does.
void compress(Compression how, std::span<const std::byte> bytes, std::vector<std::byte>& to);
// Fills all of `to`. Throws Error(kInvalidArgument) if the bytes are damaged or have another size
// when decompressed; else as require_library() does.
void decompress(Compression how, std::span<const std::byte> bytes, std::span<std::byte> to);

}  // namespace tensorbus::tensor::mcap
