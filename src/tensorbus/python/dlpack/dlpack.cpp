#include "tensorbus/python/dlpack/dlpack.hpp"

#include <algorithm>
#include <string>
#include <tensorbus/internal/dlpack_types.hpp>
#include <utility>

namespace tensorbus::python {
namespace {

constexpr const char* kName = "dltensor";
constexpr const char* kVersionedName = "dltensor_versioned";

// The object behind both kinds of DLPack tensors.
struct Managed {
  DLManagedTensorVersioned versioned{};
  DLManagedTensor plain{};
  Memory memory;
  WriteWatch writes;
};

Managed* make(Memory taken) {
  auto* managed = new Managed;
  managed->memory = std::move(taken);
  Memory& memory = managed->memory;
  Layout& layout = memory.layout;
  managed->writes.begin(memory);
  const DLTensor tensor{.data = memory.first,
                        .device = memory.device.is_cuda() ? DLDevice{kDLCuda, memory.device.ordinal}
                                                          : DLDevice{kDLCpu, 0},
                        .ndim = static_cast<std::int32_t>(layout.shape.size()),
                        .dtype = to_dlpack(layout.dtype).value(),
                        .shape = layout.shape.begin(),
                        .strides = layout.strides.begin(),
                        .byte_offset = 0};
  managed->versioned = {.version = kDLPackVersion,
                        .context = managed,
                        .deleter = [](auto* self) { delete static_cast<Managed*>(self->context); },
                        .flags = 0,
                        .tensor = tensor};
  managed->plain = {tensor, managed,
                    [](auto* self) { delete static_cast<Managed*>(self->context); }};
  return managed;
}

const char* name_for(const DLManagedTensor*) { return kName; }
const char* name_for(const DLManagedTensorVersioned*) { return kVersionedName; }

template <typename Tensor>
nb::capsule capsule_of(Tensor* tensor) {
  PyObject* capsule = PyCapsule_New(tensor, name_for(tensor), [](PyObject* unused) {
    // A consumer renames the capsule. If there was no consumer, the tensor is freed here.
    const char* name = name_for(static_cast<Tensor*>(nullptr));
    if (!PyCapsule_IsValid(unused, name)) return;
    auto* ours = static_cast<Tensor*>(PyCapsule_GetPointer(unused, name));
    ours->deleter(ours);
  });
  if (capsule == nullptr) {
    tensor->deleter(tensor);
    throw nb::python_error();
  }
  return nb::borrow<nb::capsule>(checked(capsule));
}

// The view has no stream: __dlpack__ without a stream means that a GPU tensor is written on the
// legacy default stream.
TensorView view_of(const DLTensor& tensor) {
  const bool on_device = tensor.device.type == kDLCuda;
  if (!on_device && tensor.device.type != kDLCpu && tensor.device.type != kDLCudaHost)
    throw Error(Code::kUnsupported, "tensors on DLPack device type " +
                                        std::to_string(tensor.device.type) +
                                        " cannot be sent: publish a copy in main memory");
  const auto dtype = from_dlpack(tensor.dtype);
  if (!dtype)
    throw Error(Code::kUnsupported, "elements of DLPack type (" +
                                        std::to_string(tensor.dtype.code) + ", " +
                                        std::to_string(tensor.dtype.bits) + ", " +
                                        std::to_string(tensor.dtype.lanes) + ") cannot be sent");
  const auto dims = static_cast<std::size_t>(tensor.ndim);
  Dims shape(std::span<const std::int64_t>(tensor.shape, dims));
  if (tensor.data == nullptr && std::ranges::find(shape, 0) == shape.end())
    throw Error(Code::kUnsupported, "this tensor has no memory");
  const void* data = static_cast<const std::byte*>(tensor.data) + tensor.byte_offset;
  const Device device = on_device ? Device::cuda(tensor.device.id) : Device::host();
  if (tensor.strides == nullptr)
    return {data, Layout::contiguous(*dtype, std::move(shape)), device};
  return {data,
          {*dtype, std::move(shape), Dims(std::span<const std::int64_t>(tensor.strides, dims))},
          device};
}

}  // namespace

std::optional<DLDataType> to_dlpack(DType dtype) {
  const auto type = internal::dlpack_type_of(dtype);
  if (!type) return std::nullopt;
  return DLDataType{type->code, type->bits, type->lanes};
}

std::optional<DType> from_dlpack(const DLDataType& type) {
  return internal::dtype_of_dlpack({type.code, type.bits, type.lanes});
}

DLManagedTensorVersioned* make_managed(Memory memory) {
  return &make(std::move(memory))->versioned;
}

nb::capsule make_capsule(const Memory& memory, bool versioned, bool copied) {
  Managed* managed = make(memory);
  if (!versioned) return capsule_of(&managed->plain);
  // Only consumers that support DLPack 1.0 use these flags.
  if (!memory.may_be_written()) managed->versioned.flags |= kDLReadOnly;
  if (copied) managed->versioned.flags |= kDLIsCopied;
  return capsule_of(&managed->versioned);
}

TensorView view_of_capsule(const nb::capsule& capsule) {
  if (PyCapsule_IsValid(capsule.ptr(), kVersionedName)) {
    const auto& managed =
        *static_cast<const DLManagedTensorVersioned*>(capsule.data(kVersionedName));
    if (managed.version.major != kDLPackVersion.major)
      throw Error(Code::kUnsupported,
                  "DLPack " + std::to_string(managed.version.major) + ".x is not supported");
    return view_of(managed.tensor);
  }
  return view_of(static_cast<const DLManagedTensor*>(capsule.data(kName))->tensor);
}

}  // namespace tensorbus::python
