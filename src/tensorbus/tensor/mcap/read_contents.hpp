#pragma once

#include "tensorbus/platform/export.hpp"
#include "tensorbus/tensor/files/file_bytes.hpp"
#include "tensorbus/tensor/mcap/contents.hpp"

namespace tensorbus::tensor::mcap {

// Returns the contents of a recording according to the index at its end. Without a valid end,
// searches the whole file: `recovered` and `damage` describe the result. Every message lies in the
// file, on a known channel. Throws Error(kInvalidArgument) if it is not an MCAP file,
// Error(kUnsupported) if the search needs a library that is missing, or Error(kSystem).
TENSORBUS_API Contents read_contents(const FileBytes& file);

}  // namespace tensorbus::tensor::mcap
