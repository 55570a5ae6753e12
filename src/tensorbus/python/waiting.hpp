#pragma once

#include "tensorbus/platform/waiting/stop_condition.hpp"
#include "tensorbus/python/bindings.hpp"

namespace tensorbus::python {

// Without a GIL: frees the objects that this thread has made and other threads were the last to let
// go of. CPython does so when this thread next runs Python; but it waits, perhaps for what they
// hold. Returns false, with the error set, if a signal handler has raised meanwhile.
#ifdef Py_GIL_DISABLED
bool free_what_others_let_go_of();
#else
inline bool free_what_others_let_go_of() { return true; }  // it was freed at once
#endif

// Returns what wait(stop) returns, which runs without the GIL and stops when a signal handler
// raises. Throws what that handler raised.
template <typename Wait>
auto wait_hearing_signals(Seconds timeout, Wait wait) {
  std::optional<std::invoke_result_t<Wait, const platform::StopCondition&>> result;
  try {
    WithoutGil release;
    result.emplace(wait(platform::StopCondition(to_timeout(timeout), [&release] {
      const WithGil acquire(release);
      return !free_what_others_let_go_of() || PyErr_CheckSignals() != 0;
    })));
  } catch (const Error&) {  // from a wait that was given up; the handler's exception comes first
    if (PyErr_Occurred() == nullptr) throw;
  }
  if (PyErr_Occurred() != nullptr) throw nb::python_error();
  return *std::move(result);
}

}  // namespace tensorbus::python
