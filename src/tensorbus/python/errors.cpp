#include "tensorbus/python/bindings.hpp"

namespace tensorbus::python {
namespace {

// The classes are Python's (tensorbus/_errors.py), found by the code.
void raise_python_error(const std::exception_ptr& pointer, void*) {
  try {
    std::rethrow_exception(pointer);
  } catch (const Error& error) {
    const nb::object make = nb::module_::import_("tensorbus._errors").attr("of_code");
    const nb::object exception = make(static_cast<int>(error.code()), error.what());
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
  }
}

}  // namespace

void bind_errors(nb::module_& module) {
  nb::enum_<Code>(module, "Code", "Why a call failed.", nb::is_arithmetic())
      .value("INVALID_ARGUMENT", Code::kInvalidArgument)
      .value("UNSUPPORTED", Code::kUnsupported)
      .value("OUT_OF_MEMORY", Code::kOutOfMemory)
      .value("CLOSED", Code::kClosed)
      .value("TIMEOUT", Code::kTimeout)
      .value("PROTOCOL", Code::kProtocol)
      .value("VERSION_MISMATCH", Code::kVersionMismatch)
      .value("PERMISSION", Code::kPermission)
      .value("FORKED", Code::kForked)
      .value("SYSTEM", Code::kSystem);
  nb::register_exception_translator(raise_python_error);
}

}  // namespace tensorbus::python
