#include "tensorbus/python/waiting.hpp"

namespace tensorbus::python {

#ifdef Py_GIL_DISABLED
namespace {

// A Python function that does nothing. Set when the module is made; never freed.
PyObject* do_nothing = nullptr;

}  // namespace

bool free_what_others_let_go_of() {
  PyObject* const done = PyObject_CallNoArgs(do_nothing);
  Py_XDECREF(done);
  return done != nullptr;
}

void bind_waiting(nb::module_&) {
  const nb::dict globals;
  do_nothing = PyRun_String("lambda: None", Py_eval_input, globals.ptr(), globals.ptr());
  if (do_nothing == nullptr) throw nb::python_error();
}
#else
void bind_waiting(nb::module_&) {}
#endif

}  // namespace tensorbus::python
