#pragma once

#include <string>
#include <tensorbus/file_options.hpp>

#include "tensorbus/tensor/files/file_bytes.hpp"
#include "tensorbus/tensor/files/file_contents.hpp"

// NumPy's .npy files (numpy.lib.format): "\x93NUMPY", two bytes of version, the header's length,
// and the header, which is a Python dict as text: {'descr': '<f4', 'fortran_order': False, 'shape':
// (2, 3), }. Then the elements.
namespace tensorbus {

// Reads the header of a file. Throws Error(kInvalidArgument) that names the field if it is not a
// .npy file or contradicts the options; Error(kUnsupported) for elements that no tensor can have:
// records, Python objects, strings, another byte order.
[[gnu::cold]] FileContents npy_contents(const FileBytes& file, const FileOptions& options);

// Returns the bytes before the elements of a contiguous tensor.
std::string npy_header(const Layout& layout);

}  // namespace tensorbus
