#pragma once

#include <nanobind/nanobind.h>

#include <string>

namespace tensorbus::python {

// Converts bytes that a peer wrote: Python accepts only UTF-8.
inline nanobind::str text_of(const std::string& bytes) {
  PyObject* const text =
      PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "replace");
  if (text == nullptr) nanobind::raise_python_error();
  return nanobind::steal<nanobind::str>(text);
}

}  // namespace tensorbus::python
