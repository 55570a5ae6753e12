#pragma once

#include <cstdint>
#include <optional>

#include "tensorbus/python/dlpack_abi.hpp"
#include "tensorbus/python/memory.hpp"

namespace tensorbus::python {

// Nothing for what DLPack has no name for.
std::optional<DLDataType> to_dlpack(DType dtype);
std::optional<DType> from_dlpack(const DLDataType& type);

// A DLPack tensor over memory, which it keeps until its deleter is called, in any thread, with or
// without the GIL. DLPack must have a name for its elements.
DLManagedTensorVersioned* make_managed(Memory memory);

// A capsule of it: "dltensor_versioned", or "dltensor" for takers from before DLPack 1.0.
nb::capsule make_capsule(const Memory& memory, bool versioned);

// What a capsule of another library describes. Throws Error(kUnsupported) for what is neither in
// main memory nor on a GPU of CUDA, or has elements that we have no name for.
TensorView view_of_capsule(const nb::capsule& capsule);

}  // namespace tensorbus::python
