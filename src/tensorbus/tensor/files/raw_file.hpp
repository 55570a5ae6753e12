#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <tensorbus/values/file_options.hpp>

#include "tensorbus/tensor/files/file_contents.hpp"

// Files that hold one tensor without a description. Their Error(kInvalidArgument) names the field,
// not the file.
namespace tensorbus::tensor {

FileContents raw_contents(const FileOptions& options, std::size_t file_bytes);

// Returns the layout for a new file, from the options alone.
Layout planned_layout(const FileOptions& options);

// Returns the sizes of a shape. One size may be -1 and is then computed from `bytes`. Without a
// shape, returns one dimension with all elements.
Dims sizes_in(const std::optional<Dims>& shape, DType dtype, std::size_t bytes);

// Returns e.g. "(4, 6)".
std::string text_of(const Dims& sizes);

}  // namespace tensorbus::tensor
