#include "tensorbus/python/dlpack.hpp"

#include <cstdint>
#include <utility>
#include <vector>

namespace tensorbus::python {
namespace {

// The structs of dlpack.h, which are its ABI.
struct DLDevice {
  std::int32_t type;
  std::int32_t id;
};
struct DLDataType {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
};
struct DLTensor {
  void* data;
  DLDevice device;
  std::int32_t ndim;
  DLDataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;
  std::uint64_t byte_offset;
};
struct DLManagedTensor {
  DLTensor tensor;
  void* context;
  void (*deleter)(DLManagedTensor*);
};

constexpr std::int32_t kCpu = 1;
constexpr const char* kName = "dltensor";

struct Managed {
  DLManagedTensor tensor{};
  Dims shape;
  Dims strides;
  std::shared_ptr<void> owner;
};

DLDataType data_type(DType dtype) {
  enum Kind : std::uint8_t {
    kInt = 0,
    kUInt = 1,
    kFloat = 2,
    kBFloat = 4,
    kComplex = 5,
    kBool = 6
  };
  const auto bits = static_cast<std::uint8_t>(8 * item_bytes(dtype));
  switch (dtype) {
    case DType::kBool:
      return {kBool, bits, 1};
    case DType::kInt8:
    case DType::kInt16:
    case DType::kInt32:
    case DType::kInt64:
      return {kInt, bits, 1};
    case DType::kUInt8:
    case DType::kUInt16:
    case DType::kUInt32:
    case DType::kUInt64:
      return {kUInt, bits, 1};
    case DType::kBFloat16:
      return {kBFloat, bits, 1};
    case DType::kComplex64:
    case DType::kComplex128:
      return {kComplex, bits, 1};
    case DType::kFloat16:
    case DType::kFloat32:
    case DType::kFloat64:
      break;
  }
  return {kFloat, bits, 1};
}

void free_unused_capsule(PyObject* capsule) {
  // A taker renames the capsule; if nobody did, the memory is still ours to let go.
  if (!PyCapsule_IsValid(capsule, kName)) return;
  auto* tensor = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule, kName));
  tensor->deleter(tensor);
}

}  // namespace

nanobind::capsule make_dlpack_capsule(const Layout& layout, std::byte* first,
                                      std::shared_ptr<void> owner) {
  auto managed = std::make_unique<Managed>();
  managed->shape = layout.shape;
  managed->strides = layout.strides;
  managed->owner = std::move(owner);
  managed->tensor.tensor = {.data = first,
                            .device = {kCpu, 0},
                            .ndim = static_cast<std::int32_t>(layout.shape.size()),
                            .dtype = data_type(layout.dtype),
                            .shape = managed->shape.begin(),
                            .strides = managed->strides.begin(),
                            .byte_offset = 0};
  managed->tensor.context = managed.get();
  managed->tensor.deleter = [](DLManagedTensor* self) {
    delete static_cast<Managed*>(self->context);
  };
  PyObject* capsule = PyCapsule_New(&managed->tensor, kName, free_unused_capsule);
  if (capsule == nullptr) throw nanobind::python_error();
  (void)managed.release();
  return nanobind::steal<nanobind::capsule>(capsule);
}

}  // namespace tensorbus::python
