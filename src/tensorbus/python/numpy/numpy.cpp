#include "tensorbus/python/numpy/numpy.hpp"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <atomic>

namespace tensorbus::python {
namespace {

// Release when written pairs with acquire when read, so that a reader sees a complete Numpy.
std::atomic<const Numpy*> numpy_once_set{nullptr};

void* const* api_of(nb::handle capsule) {
  if (!PyCapsule_CheckExact(capsule.ptr())) return nullptr;
  auto* const api = static_cast<void* const*>(PyCapsule_GetPointer(capsule.ptr(), nullptr));
  if (api == nullptr) throw nb::python_error();
  const auto version = reinterpret_cast<numpy_abi::GetVersion>(api[numpy_abi::kGetVersion]);
  return numpy_abi::is_known(version()) ? api : nullptr;
}

void set_numpy(nb::type_object array, nb::object api, nb::list dtypes) {
  if (known_numpy() != nullptr) return;
  auto* numpy = new Numpy;
  numpy->array = reinterpret_cast<PyTypeObject*>(nb::object(array).release().ptr());
  numpy->api = api_of(api);
  for (const nb::handle descr : dtypes) {
    const auto dtype = dtype_named(nb::cast<std::string>(descr.attr("name")));
    if (!dtype) continue;
    nb::object scalar = descr.attr("type");
    numpy->kinds.push_back({*dtype, nb::borrow(descr).release().ptr(),
                            reinterpret_cast<PyTypeObject*>(scalar.release().ptr()),
                            nb::cast<std::string>(descr.attr("str"))});
  }
  numpy_once_set.store(numpy, std::memory_order_release);
}

template <typename Is>
const Numpy::Kind* first_kind(const std::vector<Numpy::Kind>& kinds, Is is) noexcept {
  const auto found = std::ranges::find_if(kinds, is);
  return found == kinds.end() ? nullptr : &*found;
}

}  // namespace

const Numpy* known_numpy() noexcept { return numpy_once_set.load(std::memory_order_acquire); }

const Numpy::Kind* Numpy::kind_of(DType dtype) const noexcept {
  return first_kind(kinds, [&](const Kind& kind) { return kind.dtype == dtype; });
}

const Numpy::Kind* Numpy::kind_of_descr(const PyObject* descr) const noexcept {
  return first_kind(kinds, [&](const Kind& kind) { return kind.descr == descr; });
}

const Numpy::Kind* Numpy::kind_of_scalar(const PyTypeObject* type) const noexcept {
  return first_kind(kinds, [&](const Kind& kind) { return kind.scalar == type; });
}

void bind_numpy(nb::module_& module) {
  module.def("set_numpy", set_numpy, nb::arg("array"), nb::arg("api"), nb::arg("dtypes"),
             nb::sig("def set_numpy(array: type, api: object, dtypes: list[typing.Any]) -> None"),
             "Sets the class of plain arrays, the capsule of NumPy's C interface, and NumPy's "
             "dtypes that have a name here.");
}

}  // namespace tensorbus::python
