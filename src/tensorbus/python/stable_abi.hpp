#pragma once

#include <nanobind/nanobind.h>

#include <string_view>

// What the sources use of Python's objects, for either kind of build: for one version of CPython
// the macros that read the objects, and for the stable ABI (Py_LIMITED_API: one build for
// CPython 3.12 and newer) the functions for the same. The type of each object is known to the
// caller, so that none of the functions can fail, except where it says so. Items are borrowed.
namespace tensorbus::python {

namespace nb = nanobind;

#ifndef Py_LIMITED_API

inline double float_value(PyObject* number) noexcept { return PyFloat_AS_DOUBLE(number); }

inline Py_ssize_t dict_size(PyObject* dict) noexcept { return PyDict_GET_SIZE(dict); }
inline Py_ssize_t list_size(PyObject* list) noexcept { return PyList_GET_SIZE(list); }
inline Py_ssize_t tuple_size(PyObject* tuple) noexcept { return PyTuple_GET_SIZE(tuple); }

inline PyObject* list_item(PyObject* list, Py_ssize_t i) noexcept {
  return PyList_GET_ITEM(list, i);
}
inline PyObject* tuple_item(PyObject* tuple, Py_ssize_t i) noexcept {
  return PyTuple_GET_ITEM(tuple, i);
}

// Fills an item of a new list or tuple, and takes the reference.
inline void fill_list_item(PyObject* list, Py_ssize_t i, PyObject* item) noexcept {
  PyList_SET_ITEM(list, i, item);
}
inline void fill_tuple_item(PyObject* tuple, Py_ssize_t i, PyObject* item) noexcept {
  PyTuple_SET_ITEM(tuple, i, item);
}

inline std::string_view bytes_value(PyObject* bytes) noexcept {
  return {PyBytes_AS_STRING(bytes), static_cast<std::size_t>(PyBytes_GET_SIZE(bytes))};
}

inline bool is_ascii(PyObject* text) noexcept { return PyUnicode_IS_COMPACT_ASCII(text) != 0; }

// Returns the bytes of a str for which is_ascii() was true.
inline std::string_view ascii_value(PyObject* text) noexcept {
  return {reinterpret_cast<const char*>(PyUnicode_1BYTE_DATA(text)),
          static_cast<std::size_t>(PyUnicode_GET_LENGTH(text))};
}

#else

inline double float_value(PyObject* number) noexcept { return PyFloat_AsDouble(number); }

inline Py_ssize_t dict_size(PyObject* dict) noexcept { return PyDict_Size(dict); }
inline Py_ssize_t list_size(PyObject* list) noexcept { return PyList_Size(list); }
inline Py_ssize_t tuple_size(PyObject* tuple) noexcept { return PyTuple_Size(tuple); }

inline PyObject* list_item(PyObject* list, Py_ssize_t i) noexcept {
  return PyList_GetItem(list, i);
}
inline PyObject* tuple_item(PyObject* tuple, Py_ssize_t i) noexcept {
  return PyTuple_GetItem(tuple, i);
}

inline void fill_list_item(PyObject* list, Py_ssize_t i, PyObject* item) noexcept {
  (void)PyList_SetItem(list, i, item);
}
inline void fill_tuple_item(PyObject* tuple, Py_ssize_t i, PyObject* item) noexcept {
  (void)PyTuple_SetItem(tuple, i, item);
}

inline std::string_view bytes_value(PyObject* bytes) noexcept {
  return {PyBytes_AsString(bytes), static_cast<std::size_t>(PyBytes_Size(bytes))};
}

// The UTF-8 of such a str is its own memory.
inline std::string_view ascii_value(PyObject* text) noexcept {
  Py_ssize_t bytes = 0;
  const char* const utf8 = PyUnicode_AsUTF8AndSize(text, &bytes);
  return {utf8, static_cast<std::size_t>(bytes)};
}

// A str has as many bytes in UTF-8 as characters if it is ASCII. A lone surrogate has no UTF-8.
inline bool is_ascii(PyObject* text) noexcept {
  Py_ssize_t bytes = 0;
  if (PyUnicode_AsUTF8AndSize(text, &bytes) != nullptr) return bytes == PyUnicode_GetLength(text);
  PyErr_Clear();
  return false;
}

#endif

// Of a list or tuple.
inline Py_ssize_t sequence_size(PyObject* items) noexcept {
  return PyList_Check(items) != 0 ? list_size(items) : tuple_size(items);
}
inline PyObject* sequence_item(PyObject* items, Py_ssize_t i) noexcept {
  return PyList_Check(items) != 0 ? list_item(items, i) : tuple_item(items, i);
}

// Returns a new reference to the attribute of `object` that `descriptor`, found in its type, stands
// for; null with an exception.
inline PyObject* described_value(PyObject* descriptor, PyObject* object) noexcept {
  PyTypeObject* const type = Py_TYPE(descriptor);
#ifndef Py_LIMITED_API
  const descrgetfunc get = type->tp_descr_get;
#else
  const auto get = reinterpret_cast<descrgetfunc>(PyType_GetSlot(type, Py_tp_descr_get));
#endif
  return get(descriptor, object, reinterpret_cast<PyObject*>(Py_TYPE(object)));
}

}  // namespace tensorbus::python
