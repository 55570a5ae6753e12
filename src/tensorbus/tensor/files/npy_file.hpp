#pragma once

#include <string>
#include <tensorbus/file_options.hpp>

#include "tensorbus/tensor/files/file_bytes.hpp"
#include "tensorbus/tensor/files/file_contents.hpp"

// NumPy's .npy files (numpy.lib.format): "\x93NUMPY", two bytes of version, the header's length,
// and the header, a dict as Python writes it: {'descr': '<f4', 'fortran_order': False, 'shape':
// (2, 3), }. Then the elements.
namespace tensorbus {

// Throws Error(kInvalidArgument) that names the field if it is not one, or not what the options
// say; Error(kUnsupported) for elements that no tensor has: records, Python objects, texts, those
// of another byte order.
FileContents npy_contents(const FileBytes& file, const FileOptions& options);

// What comes before the elements of a contiguous tensor.
std::string npy_header(const Layout& layout);

}  // namespace tensorbus
