#pragma once

#include "tensorbus/platform/waiting/stop_condition.hpp"
#include "tensorbus/python/bindings.hpp"

namespace tensorbus::python {

// Without a GIL: frees objects that this thread has made and whose last references other threads
// have released. CPython frees them when this thread next runs Python code; but this thread waits,
// perhaps for memory that they hold. Returns false, with the error set, if a signal handler has
// raised an exception.
#ifdef Py_GIL_DISABLED
bool free_what_others_let_go_of();
#else
inline bool free_what_others_let_go_of() { return true; }  // with a GIL, objects are freed at once
#endif

// Calls wait(stop) without the GIL, and returns its result. If a signal handler raises an
// exception, the wait stops and this function throws the exception.
template <typename Wait>
auto wait_interruptibly(Seconds timeout, Wait wait) {
  std::optional<std::invoke_result_t<Wait, const platform::StopCondition&>> result;
  try {
    WithoutGil release;
    result.emplace(wait(platform::StopCondition(to_timeout(timeout), [&release] {
      const WithGil acquire(release);
      return !free_what_others_let_go_of() || PyErr_CheckSignals() != 0;
    })));
  } catch (const Error&) {  // if the wait was stopped, the handler's exception is thrown
    if (PyErr_Occurred() == nullptr) throw;
  }
  if (PyErr_Occurred() != nullptr) throw nb::python_error();
  return *std::move(result);
}

}  // namespace tensorbus::python
