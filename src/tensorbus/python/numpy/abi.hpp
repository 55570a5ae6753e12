#pragma once

#include <Python.h>

#include <cstddef>

// The part of NumPy's ABI that is used, so that the build does not need NumPy: the head of an
// array, and indices in the table of functions. Both are the same in NumPy 1.x (from 1.7 on) and
// 2.x: https://numpy.org/doc/stable/reference/c-api/types-and-structures.html and
// numpy/_core/code_generators/numpy_api.py.
namespace tensorbus::python::numpy_abi {

struct Array {
  PyObject_HEAD char* data;
  int dims;
  Py_ssize_t* shape;
  Py_ssize_t* strides;  // in bytes
  PyObject* base;
  PyObject* descr;
  int flags;
};

inline constexpr int kContiguous = 0x0001;  // row-major
inline constexpr int kWriteable = 0x0400;

// Indices in the table of PyArray_API.
inline constexpr std::size_t kGetVersion = 0;       // PyArray_GetNDArrayCVersion
inline constexpr std::size_t kScalar = 60;          // PyArray_Scalar
inline constexpr std::size_t kScalarAsCtype = 62;   // PyArray_ScalarAsCtype
inline constexpr std::size_t kNewFromDescr = 94;    // PyArray_NewFromDescr
inline constexpr std::size_t kSetBaseObject = 282;  // PyArray_SetBaseObject

using GetVersion = unsigned (*)();
using Scalar = PyObject* (*)(void* data, PyObject* descr, PyObject* base);
using ScalarAsCtype = void (*)(PyObject* scalar, void* value);
// Steals the reference to `descr`.
using NewFromDescr = PyObject* (*)(PyTypeObject* type, PyObject* descr, int dims,
                                   const Py_ssize_t* shape, const Py_ssize_t* strides, void* data,
                                   int flags, PyObject* like);
// Steals the reference to `base`.
using SetBaseObject = int (*)(PyObject* array, PyObject* base);

// Returns true for the known versions of the interface: 1.x and 2.x.
inline constexpr bool is_known(unsigned version) {
  return version >> 24 == 1 || version >> 24 == 2;
}

}  // namespace tensorbus::python::numpy_abi
