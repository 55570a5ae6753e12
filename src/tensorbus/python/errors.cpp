#include <nanobind/stl/string.h>

#include <atomic>
#include <string>

#include "tensorbus/python/bindings.hpp"

namespace tensorbus::python {
namespace {

// The exception classes of Python (tensorbus/_base/errors.py): a tuple, by code. It is set once,
// because imports no longer work at the end of the interpreter, when errors are still raised. It is
// never freed. Release when written pairs with acquire when read.
std::atomic<PyObject*> known_errors{nullptr};

void set_errors(nb::tuple by_code) {
  known_errors.store(by_code.release().ptr(), std::memory_order_release);
}

PyObject* class_of(Code code) {
  PyObject* classes = known_errors.load(std::memory_order_acquire);
  const auto index = static_cast<Py_ssize_t>(code);
  if (classes == nullptr || index >= tuple_size(classes)) return PyExc_RuntimeError;
  return tuple_item(classes, index);
}

void raise_python_error(const std::exception_ptr& pointer, void*) {
  try {
    std::rethrow_exception(pointer);
  } catch (const Error& error) {
    // Ctrl-C reaches all processes of a terminal. If it ends another process, this process may get
    // an error as a consequence: KeyboardInterrupt takes precedence over this error.
    if (PyErr_CheckSignals() != 0) return;
    try {  // the text may name a file by bytes that are not UTF-8
      const nb::str text = text_of(error.what(), "backslashreplace");
      PyErr_SetObject(class_of(error.code()), text.ptr());
    } catch (nb::python_error& no_memory) {
      no_memory.restore();
    }
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
      .value("SYSTEM", Code::kSystem)
      .value("TYPE_MISMATCH", Code::kTypeMismatch);
  module.def("set_errors", set_errors, nb::arg("by_code"),
             nb::sig("def set_errors(by_code: tuple[type[Exception], ...]) -> None"),
             "Sets the exception class for each Code.");
  module.def(
      "raise_system_error",
      [](const std::string& what, int error_number) { throw_system(what, error_number); },
      nb::arg("what"), nb::arg("error_number"),
      nb::sig("def raise_system_error(what: str, error_number: int) -> None"),
      "Raises the error of a failed system call. If a limit was reached, the text names it.");
  nb::register_exception_translator(raise_python_error);
}

}  // namespace tensorbus::python
