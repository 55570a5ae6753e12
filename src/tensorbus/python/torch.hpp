#pragma once

#include <optional>

#include "tensorbus/python/bindings.hpp"

namespace tensorbus::python {

// Describes a plain torch.Tensor, which has nothing to send except its elements and layout: its
// class is exactly torch.Tensor, and it is strided, in main memory, without gradients, conjugate or
// negative bit. Returns nothing for any other object, and always before set_torch(). Uses
// PyTorch's C interface for DLPack; a call takes a quarter of a microsecond.
std::optional<TensorView> view_of_plain_torch(nb::handle value);

// Returns the dtype of a torch.dtype; nothing for any other object, and always before set_torch().
std::optional<DType> dtype_of_torch(nb::handle value);

}  // namespace tensorbus::python
