#pragma once

#include <optional>

#include "tensorbus/python/dlpack/abi.hpp"
#include "tensorbus/python/memory.hpp"

namespace tensorbus::python {

// Convert element types. Return nothing for a type that the other side does not have.
std::optional<DLDataType> to_dlpack(DType dtype);
std::optional<DType> from_dlpack(const DLDataType& type);

// Makes a DLPack tensor over memory. It keeps the memory until its deleter is called, in any
// thread, with or without the GIL. The element type must be one of DLPack's.
DLManagedTensorVersioned* make_managed(Memory memory);

// Makes a capsule: "dltensor_versioned", or "dltensor" for consumers older than DLPack 1.0.
// `copied`: the memory is a copy for this consumer.
nb::capsule make_capsule(const Memory& memory, bool versioned, bool copied);

// Describes the tensor in a capsule of another library. Throws Error(kUnsupported) if it is neither
// in main memory nor on a CUDA GPU, or if its element type is unknown here.
TensorView view_of_capsule(const nb::capsule& capsule);

}  // namespace tensorbus::python
