#pragma once

#include "tensorbus/python/bindings.hpp"

namespace tensorbus::python {

// Calls wait(give_up) without the GIL. Throws what a signal handler raised.
template <typename Wait>
Outcome wait_hearing_signals(Wait wait) {
  Outcome outcome = Outcome::kInterrupted;
  try {
    WithoutGil release;
    outcome = wait([&release] {
      const WithGil acquire(release);
      return PyErr_CheckSignals() != 0;
    });
  } catch (const Error&) {  // from a wait that was given up; the handler's exception comes first
    if (PyErr_Occurred() == nullptr) throw;
  }
  if (PyErr_Occurred() != nullptr) throw nb::python_error();
  return outcome;
}

}  // namespace tensorbus::python
