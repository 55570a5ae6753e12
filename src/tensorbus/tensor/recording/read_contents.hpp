#pragma once

#include "tensorbus/platform/export.hpp"
#include "tensorbus/tensor/files/file_bytes.hpp"
#include "tensorbus/tensor/recording/contents.hpp"

namespace tensorbus::recording {

// Returns what is in a recording, as the index at its end says. Without a right end, all of the
// file is searched: `recovered` and `damage` of the contents say what was found. Every message lies
// in the file, on a known channel. Throws Error(kInvalidArgument) if it is no MCAP file,
// Error(kUnsupported) for one that must be searched and needs a library that is not there,
// Error(kSystem).
TENSORBUS_API Contents read_contents(const FileBytes& file);

}  // namespace tensorbus::recording
