#include "tensorbus/python/bindings.hpp"
#include "tensorbus/version.hpp"

// NB_MODULE defines a function of this name; Python calls the one below.
#define PyInit__core tensorbus_make_core
NB_MODULE(_core, module) {
  using namespace tensorbus::python;
  module.attr("version") = tensorbus::kVersion;
  nb::set_leak_warnings(false);  // a program may exit while it holds samples
  bind_errors(module);
  bind_waiting(module);
  bind_memory(module);
  bind_files(module);
  bind_torch(module);
  bind_indices(module);
  bind_outgoing(module);
  bind_numpy(module);
  bind_hooks(module);
  bind_message_plan(module);
  bind_packer(module);
  bind_fields_reader(module);
  bind_keepers(module);
  bind_log(module);
  bind_samples(module);
  bind_endpoints(module);
  bind_born(module);
  bind_shares(module);
  bind_plain_items(module);
  bind_queues(module);
  bind_mirror_queues(module);
  bind_ipc(module);
  bind_listing(module);
  bind_inspection(module);
  bind_doctor(module);
  bind_tracing(module);
  bind_recordings(module);
  bind_players(module);
}
#undef PyInit__core

namespace {

int (*fill_module)(PyObject*) = nullptr;  // of NB_MODULE

// Fills the module only in the main interpreter. Another interpreter in this process would share
// state that nanobind and this extension have once per process: classes, exceptions, PyTorch. Not
// all versions of Python, and not all interpreters, check the slot Py_mod_multiple_interpreters.
int fill_module_of_main_interpreter(PyObject* module) {
  if (PyInterpreterState_GetID(PyInterpreterState_Get()) == 0) return fill_module(module);
  PyErr_SetString(
      PyExc_ImportError,
      "tensorbus cannot be imported in a subinterpreter: import it in the main "
      "interpreter, or start a process (multiprocessing) in place of the subinterpreter");
  return -1;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) PyObject* PyInit__core() {
  PyObject* const made = tensorbus_make_core();
  if (made == nullptr) return nullptr;
  for (PyModuleDef_Slot* slot = reinterpret_cast<PyModuleDef*>(made)->m_slots; slot->slot != 0;
       ++slot) {
    if (slot->slot != Py_mod_exec || fill_module != nullptr) continue;
    fill_module = reinterpret_cast<int (*)(PyObject*)>(slot->value);
    slot->value = reinterpret_cast<void*>(fill_module_of_main_interpreter);
  }
  return made;
}
