#pragma once

#include <string>
#include <tensorbus/values/file_options.hpp>

#include "tensorbus/tensor/files/file_bytes.hpp"
#include "tensorbus/tensor/files/file_contents.hpp"

// NumPy's .npy files (numpy.lib.format): "\x93NUMPY", a version of two bytes, the length of the
// header, and the header, a Python dict as text: {'descr': '<f4', 'fortran_order': False, 'shape':
// (2, 3), }. The elements follow.
namespace tensorbus::tensor {

// Reads the header of a file. Throws Error(kInvalidArgument) that names the field if it is not a
// .npy file or contradicts the options; Error(kUnsupported) for elements that no tensor can have:
// records, Python objects, strings, another byte order.
[[gnu::cold]] FileContents npy_contents(const FileBytes& file, const FileOptions& options);

// Returns the bytes that precede the elements of a contiguous tensor.
std::string npy_header(const Layout& layout);

}  // namespace tensorbus::tensor
