#pragma once

#include <optional>

#include "tensorbus/python/bindings.hpp"
#include "tensorbus/python/memory.hpp"

namespace tensorbus::python {

// Describes a numpy.ndarray with a built-in dtype of NumPy. Returns nothing for any other object,
// and always before set_numpy().
std::optional<TensorView> view_of_plain_array(nb::handle value);

// Returns the dtype of a dtype or scalar class of NumPy, or of its name; nothing for any other
// object.
std::optional<DType> dtype_of_numpy(nb::handle value);

// Returns true if make_plain_array() can make an array over this memory.
bool can_be_plain_array(const Memory& memory);
// Makes an array over the memory; read-only if the memory is.
nb::object make_plain_array(Memory memory);

}  // namespace tensorbus::python
