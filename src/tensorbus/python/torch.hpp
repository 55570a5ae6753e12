#pragma once

#include <optional>

#include "tensorbus/python/bindings.hpp"

namespace tensorbus::python {

// Where a torch.Tensor lies, if that is all there is to say of it: exactly this class, strided, in
// main memory, without gradients, conjugate or negative bit. Nothing for any other object, also for
// all tensors before know_torch(). Reads it by PyTorch's C interface for DLPack, in a quarter of a
// microsecond.
std::optional<TensorView> view_of_plain_torch(nb::handle value);

// The dtype that a torch.dtype is; nothing for any other object, and before know_torch().
std::optional<DType> dtype_of_torch(nb::handle value);

}  // namespace tensorbus::python
