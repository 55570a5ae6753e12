// Reads and makes PyTorch tensors through its C interface for DLPack (PyTorch 2.10 and newer),
// without linking PyTorch. This makes messages of many tensors fast.
// tensorbus/_tensors/torch_tensors.py and tensorbus/_codec/torch_records.py handle unusual tensors.
#include "tensorbus/python/torch.hpp"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "tensorbus/python/dlpack/dlpack.hpp"
#include "tensorbus/python/memory.hpp"

namespace tensorbus::python {
namespace {

// Objects of PyTorch, set once by Python. Never freed: the interpreter may end before this
// extension.
struct Torch {
  PyTypeObject* tensor = nullptr;
  const DLPackExchangeAPI* api = nullptr;
  std::vector<std::pair<PyObject*, DType>> dtypes;  // torch.dtype objects are singletons
  // Attributes of the class, which are looked up only once.
  nb::object dtype;
  nb::object requires_grad;
  nb::object is_neg;
  nb::object is_conj;
};
// Release when written pairs with acquire when read, so that a reader sees a complete Torch.
std::atomic<const Torch*> known_torch{nullptr};

const Torch* known() noexcept { return known_torch.load(std::memory_order_acquire); }

void set_torch(nb::type_object tensor, nb::dict dtypes) {
  const nb::object capsule = nb::getattr(tensor, "__dlpack_c_exchange_api__", nb::none());
  if (known() != nullptr || !nb::isinstance<nb::capsule>(capsule)) return;
  const auto* api = static_cast<const DLPackExchangeAPI*>(
      nb::cast<nb::capsule>(capsule).data("dlpack_exchange_api"));
  while (api != nullptr && api->version.major != kDLPackVersion.major) api = api->older;
  if (api == nullptr || api->view_of_object == nullptr) return;
  auto* torch = new Torch;
  torch->tensor = reinterpret_cast<PyTypeObject*>(nb::object(tensor).release().ptr());
  torch->api = api;
  torch->dtype = tensor.attr("dtype");
  torch->requires_grad = tensor.attr("requires_grad");
  torch->is_neg = tensor.attr("is_neg");
  torch->is_conj = tensor.attr("is_conj");
  for (const auto& [dtype, name] : dtypes)
    if (const auto same = dtype_named(nb::cast<std::string>(name)))
      torch->dtypes.emplace_back(nb::borrow(dtype).release().ptr(), *same);
  known_torch.store(torch, std::memory_order_release);
}

nb::object attribute(nb::handle value, const nb::object& descriptor) {
  return checked(described_value(descriptor.ptr(), value.ptr()));
}

bool answers_true(nb::handle value, const nb::object& method) {
  return checked(PyObject_CallFunctionObjArgs(method.ptr(), value.ptr(), nullptr)).ptr() !=
         Py_False;
}

// Returns false for DLPack's types that exist only in ml_dtypes.
bool is_torch_dtype(DType dtype) {
  return dtype < DType::kFloat8E3M4 || dtype > DType::kFloat8E4M3B11FNUZ;
}

bool is_complex(DType dtype) {
  return dtype == DType::kComplex64 || dtype == DType::kComplex128 || dtype == DType::kComplex32;
}

}  // namespace

std::optional<DType> dtype_of_torch(nb::handle value) {
  const Torch* torch = known();
  if (torch == nullptr) return std::nullopt;
  for (const auto& [object, dtype] : torch->dtypes)
    if (object == value.ptr()) return dtype;
  return std::nullopt;
}

std::optional<TensorView> view_of_plain_torch(nb::handle value) {
  const Torch* torch = known();
  if (torch == nullptr || Py_TYPE(value.ptr()) != torch->tensor) return std::nullopt;
  DLTensor tensor{};
  if (torch->api->view_of_object(value.ptr(), &tensor) != 0) {
    PyErr_Clear();  // sparse, meta, quantized, ...
    return std::nullopt;
  }
  if (tensor.device.type != kDLCpu) return std::nullopt;
  const auto dtype = from_dlpack(tensor.dtype);
  if (!dtype) return std::nullopt;
  // DLPack reports PyTorch's integers of less than 8 bits as int8 or uint8.
  const bool is_byte = *dtype == DType::kInt8 || *dtype == DType::kUInt8;
  if (is_byte && dtype_of_torch(attribute(value, torch->dtype)) != dtype) return std::nullopt;
  if (attribute(value, torch->requires_grad).ptr() != Py_False) return std::nullopt;
  if (answers_true(value, torch->is_neg)) return std::nullopt;
  if (is_complex(*dtype) && answers_true(value, torch->is_conj)) return std::nullopt;
  const auto dims = static_cast<std::size_t>(tensor.ndim);
  // A tensor without memory represents zeros, or its storage was resized.
  if (tensor.data == nullptr &&
      std::find(tensor.shape, tensor.shape + dims, 0) == tensor.shape + dims)
    return std::nullopt;
  return TensorView{
      static_cast<const std::byte*>(tensor.data) + tensor.byte_offset,
      {*dtype, Dims(std::span<const std::int64_t>(tensor.shape, dims)),
       Dims(std::span<const std::int64_t>(tensor.strides, dims)), TensorFlags::kFromTorch}};
}

bool can_be_plain_torch(const Layout& layout, const Device& device, const Device& published_on) {
  constexpr TensorFlags kOrigins = TensorFlags::kFromTorch | TensorFlags::kFromNumpy;
  return known() != nullptr && !device.is_cuda() && published_on == device &&
         (layout.flags | kOrigins) == kOrigins && is_torch_dtype(layout.dtype) &&
         to_dlpack(layout.dtype) &&
         std::ranges::none_of(layout.strides, [](auto stride) { return stride < 0; });
}

bool can_be_plain_torch(const Memory& memory) {
  return can_be_plain_torch(memory.layout, memory.device, memory.published_on);
}

nb::object make_plain_torch(Memory memory) {
  DLManagedTensorVersioned* managed = make_managed(std::move(memory));
  void* made = nullptr;
  if (known()->api->object_from_managed(managed, &made) != 0) {
    managed->deleter(managed);
    throw nb::python_error();
  }
  return checked(static_cast<PyObject*>(made));
}

namespace {

nb::object plain_torch(const Memory& memory) {
  return can_be_plain_torch(memory) ? make_plain_torch(memory) : nb::none();
}

}  // namespace

void bind_torch(nb::module_& module) {
  module.def("plain_torch", plain_torch, nb::arg("memory"),
             nb::sig("def plain_torch(memory: Memory) -> typing.Any"),
             "Returns a plain torch.Tensor over this memory; None if a plain one is not possible.");
  module.def("set_torch", set_torch, nb::arg("tensor"), nb::arg("dtypes"),
             nb::sig("def set_torch(tensor: type, dtypes: dict[typing.Any, str]) -> None"),
             "Sets the class of plain tensors, and the names of their dtypes.");
}

}  // namespace tensorbus::python
