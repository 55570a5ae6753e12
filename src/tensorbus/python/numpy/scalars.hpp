#pragma once

#include <span>
#include <string_view>
#include <tensorbus/values/value.hpp>

#include "tensorbus/python/bindings.hpp"

namespace tensorbus::python {

// Scalars of NumPy's built-in dtypes, as the record "numpy.scalar".
// tensorbus/_codec/numpy_records.py handles all other scalars.

// Packs a scalar. Returns false, and packs nothing, for any other object.
bool pack_numpy_scalar(nb::handle value, internal::PackWriter& writer);
// Makes a scalar from the code of its dtype and its bytes. Returns null for any other dtype, or if
// the number of bytes is wrong.
nb::object make_numpy_scalar(std::string_view code, std::span<const std::byte> bytes);

}  // namespace tensorbus::python
