#pragma once

#include "tensorbus/platform/export.hpp"
#include "tensorbus/tensor/files/file_bytes.hpp"
#include "tensorbus/tensor/files/file_contents.hpp"

namespace tensorbus {

// Files of the safetensors format (https://github.com/huggingface/safetensors). Eight bytes,
// little-endian: how long the header is. The header, in JSON: an object that has for each tensor
// its name and {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, offsets from the end of
// the header on; "__metadata__" stands for an object of texts. Then the bytes, row-major,
// little-endian, without gaps to the end of the file.
//
// Throws Error(kInvalidArgument) that names the field if it is not one, or not whole.
TENSORBUS_API FileContents safetensors_contents(const FileBytes& file);

}  // namespace tensorbus
