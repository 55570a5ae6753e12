#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tensorbus/python/bindings.hpp"
#include "tensorbus/python/numpy/abi.hpp"

namespace tensorbus::python {

// Objects of NumPy, set once by Python. Never freed: the interpreter may end before this extension.
struct Numpy {
  // A built-in dtype of NumPy in this machine's byte order. These objects are singletons.
  struct Kind {
    DType dtype;
    PyObject* descr;
    PyTypeObject* scalar;
    std::string code;  // of NumPy's array interface, for example "<f4"
  };

  PyTypeObject* array = nullptr;
  void* const* api = nullptr;  // null: the version of NumPy's interface is unknown
  std::vector<Kind> kinds;

  template <typename Function>
  Function function(std::size_t index) const noexcept {
    return reinterpret_cast<Function>(api[index]);
  }
  const Kind* kind_of(DType dtype) const noexcept;
  const Kind* kind_of_descr(const PyObject* descr) const noexcept;
  const Kind* kind_of_scalar(const PyTypeObject* type) const noexcept;
};

// Returns null before set_numpy().
const Numpy* known_numpy() noexcept;

}  // namespace tensorbus::python
