// Tensors as Python sees them: through DLPack for PyTorch, through the buffer protocol for NumPy.
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "tensorbus/python/bindings.hpp"
#include "tensorbus/python/dlpack.hpp"

namespace tensorbus::python {
namespace {

// Memory that Python reads, or fills: a received tensor, or a loan.
struct Memory {
  Layout layout;
  std::byte* first = nullptr;  // the first element
  bool writable = false;
  std::shared_ptr<void> owner;  // the lease or the loan
};

Dims to_dims(const std::vector<std::int64_t>& values) {
  return Dims(std::span<const std::int64_t>(values));
}

nb::tuple to_tuple(const Dims& dims) {
  nb::list list;
  for (const std::int64_t value : dims) list.append(value);
  return nb::tuple(list);
}

// The struct-module letter of an element; bfloat16 has none and shows its bits.
const char* buffer_format(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return "?";
    case DType::kUInt8:
      return "B";
    case DType::kInt8:
      return "b";
    case DType::kUInt16:
      return "H";
    case DType::kInt16:
      return "h";
    case DType::kUInt32:
      return "I";
    case DType::kInt32:
      return "i";
    case DType::kUInt64:
      return "Q";
    case DType::kInt64:
      return "q";
    case DType::kFloat16:
      return "e";
    case DType::kBFloat16:
      return "H";
    case DType::kFloat32:
      return "f";
    case DType::kFloat64:
      return "d";
    case DType::kComplex64:
      return "Zf";
    case DType::kComplex128:
      return "Zd";
  }
  return "B";
}

// The arrays that a Py_buffer points to; freed with it.
struct BufferShape {
  std::vector<Py_ssize_t> shape;
  std::vector<Py_ssize_t> strides;
};

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  const auto& memory = *nb::inst_ptr<Memory>(self);
  if ((flags & PyBUF_WRITABLE) != 0 && !memory.writable) {
    PyErr_SetString(PyExc_BufferError, "a received tensor is read-only: copy it to write to it");
    return -1;
  }
  const auto item = static_cast<Py_ssize_t>(item_bytes(memory.layout.dtype));
  auto shape = std::make_unique<BufferShape>();
  shape->shape.assign(memory.layout.shape.begin(), memory.layout.shape.end());
  for (const std::int64_t stride : memory.layout.strides) shape->strides.push_back(stride * item);
  static std::byte nothing{};  // an empty tensor points nowhere, a buffer must not
  view->buf = memory.first != nullptr ? memory.first : &nothing;
  view->obj = Py_NewRef(self);
  view->len = static_cast<Py_ssize_t>(memory.layout.packed_bytes());
  view->readonly = memory.writable ? 0 : 1;
  view->itemsize = item;
  view->format = const_cast<char*>(buffer_format(memory.layout.dtype));
  view->ndim = static_cast<int>(shape->shape.size());
  view->shape = shape->shape.data();
  view->strides = shape->strides.data();
  view->suboffsets = nullptr;
  view->internal = shape.release();
  return 0;
}

void release_buffer(PyObject*, Py_buffer* view) {
  delete static_cast<BufferShape*>(view->internal);
}

PyType_Slot memory_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)},
                              {Py_bf_releasebuffer, reinterpret_cast<void*>(release_buffer)},
                              {0, nullptr}};

nb::capsule to_capsule(const Memory& memory) {
  return make_dlpack_capsule(memory.layout, memory.first, memory.owner);
}

}  // namespace

nb::object memory_of(const Tensor& tensor) {
  return nb::cast(Memory{tensor.layout(), const_cast<std::byte*>(tensor.data()), false,
                         std::make_shared<Tensor>(tensor)});
}

nb::object memory_of(Loan loan) {
  auto owner = std::make_shared<Loan>(std::move(loan));
  return nb::cast(Memory{owner->layout(), owner->data(), true, owner});
}

void bind_tensors(nb::module_& module) {
  nb::enum_<TensorFlags>(module, "TensorFlags", nb::is_arithmetic(), nb::is_flag())
      .value("REQUIRES_GRAD", TensorFlags::kRequiresGrad)
      .value("FROM_TORCH", TensorFlags::kFromTorch)
      .value("FROM_NUMPY", TensorFlags::kFromNumpy)
      .value("PARAMETER", TensorFlags::kParameter);

  nb::class_<TensorView>(module, "TensorView",
                         "A tensor that lies somewhere in this process. Strides are in elements.")
      .def(
          "__init__",
          [](TensorView* self, std::uintptr_t address, const std::string& dtype,
             const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& strides,
             unsigned flags) {
            const auto known = dtype_named(dtype);
            if (!known) throw Error(Code::kUnsupported, "dtype " + dtype + " cannot travel yet");
            new (self) TensorView{
                reinterpret_cast<const void*>(address),
                {*known, to_dims(shape), to_dims(strides), static_cast<TensorFlags>(flags)}};
          },
          nb::arg("address"), nb::arg("dtype"), nb::arg("shape"), nb::arg("strides"),
          nb::arg("flags") = 0);

  nb::class_<Memory>(module, "Memory", nb::type_slots(memory_slots),
                     "Memory of the bus: a received tensor (read-only) or a loan. Offers the "
                     "buffer protocol; strides are in elements.")
      .def_prop_ro("dtype", [](const Memory& self) { return name_of(self.layout.dtype); })
      .def_prop_ro("shape", [](const Memory& self) { return to_tuple(self.layout.shape); })
      .def_prop_ro("strides", [](const Memory& self) { return to_tuple(self.layout.strides); })
      .def_prop_ro("flags",
                   [](const Memory& self) { return static_cast<unsigned>(self.layout.flags); })
      .def_ro("writable", &Memory::writable)
      .def("dlpack", to_capsule, "A DLPack capsule; whoever takes it keeps the memory.");
}

}  // namespace tensorbus::python
