#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <tensorbus/file_options.hpp>

#include "tensorbus/tensor/files/file_contents.hpp"

// Files that hold one tensor and nothing that says which. What is wrong is Error(kInvalidArgument)
// that names the field, not the file.
namespace tensorbus {

// Of a file of so many bytes.
FileContents raw_contents(const FileOptions& options, std::size_t file_bytes);

// What a file is to hold that is yet to be made: nothing there says it.
Layout planned_layout(const FileOptions& options);

// The sizes of a shape, of which one may be -1: as many as there are bytes for. Without a shape all
// that is there, in one dimension.
Dims sizes_in(const std::optional<Dims>& shape, DType dtype, std::size_t bytes);

// "(4, 6)"
std::string text_of(const Dims& sizes);

}  // namespace tensorbus
