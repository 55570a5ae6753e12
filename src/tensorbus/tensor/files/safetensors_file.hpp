#pragma once

#include "tensorbus/platform/export.hpp"
#include "tensorbus/tensor/files/file_bytes.hpp"
#include "tensorbus/tensor/files/file_contents.hpp"

namespace tensorbus::tensor {

// Files of the safetensors format (https://github.com/huggingface/safetensors): the length of the
// header (eight bytes, little-endian), the header, and the elements: row-major, little-endian,
// without gaps up to the end of the file. The header is a JSON object. Each member is the name of a
// tensor with {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}; the offsets count from
// the end of the header. The member "__metadata__" is an object of strings.
//
// Throws Error(kInvalidArgument) that names the field if the file is invalid or incomplete.
[[gnu::cold]] TENSORBUS_API FileContents safetensors_contents(const FileBytes& file);

}  // namespace tensorbus::tensor
