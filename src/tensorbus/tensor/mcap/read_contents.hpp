#pragma once

#include "tensorbus/platform/export.hpp"
#include "tensorbus/tensor/files/file_bytes.hpp"
#include "tensorbus/tensor/mcap/contents.hpp"

namespace tensorbus::tensor::mcap {

// Returns the contents of a recording according to the index at its end. Without a valid end,
// searches the whole file: `recovered` and `damage` say what was found. Every message lies in the
// file, on a known channel. Throws Error(kInvalidArgument) if it is not an MCAP file,
// Error(kUnsupported) if it must be searched and a library for that is missing, or Error(kSystem).
TENSORBUS_API Contents read_contents(const FileBytes& file);

}  // namespace tensorbus::tensor::mcap
