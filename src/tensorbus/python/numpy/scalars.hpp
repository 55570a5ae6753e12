#pragma once

#include <span>
#include <string_view>
#include <tensorbus/value.hpp>

#include "tensorbus/python/bindings.hpp"

namespace tensorbus::python {

// Scalars of the dtypes that NumPy has by itself, as the record "numpy.scalar": see
// tensorbus/_codec/numpy_records.py, which does all others.

// Packs one. Returns false, and packs nothing, for any other object.
bool pack_numpy_scalar(nb::handle value, internal::PackWriter& writer);
// Makes one of its dtype's code and its bytes. Returns null if it is another dtype, or other bytes.
nb::object make_numpy_scalar(std::string_view code, std::span<const std::byte> bytes);

}  // namespace tensorbus::python
