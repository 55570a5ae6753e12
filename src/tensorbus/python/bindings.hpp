#pragma once

#include <nanobind/nanobind.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <optional>

#include "tensorbus/core.hpp"

namespace tensorbus::python {

namespace nb = nanobind;

// Each adds the classes of one file to the module.
void bind_errors(nb::module_& module);
void bind_memory(nb::module_& module);
void bind_files(nb::module_& module);
void bind_outgoing(nb::module_& module);
void bind_keepers(nb::module_& module);
void bind_samples(nb::module_& module);
void bind_torch(nb::module_& module);
void bind_indices(nb::module_& module);
void bind_endpoints(nb::module_& module);
void bind_shares(nb::module_& module);
void bind_queues(nb::module_& module);
void bind_listing(nb::module_& module);
void bind_doctor(nb::module_& module);

// Asks for the GIL. While the interpreter ends, CPython before 3.14 ends a daemon thread that asks
// for it by pthread_exit, whose unwinding must pass no destructor and nothing noexcept. Such a
// thread waits here for the end of the process, as it does in CPython 3.14. Nothing else is thrown:
// these are functions of C.
template <typename Take>
auto take_gil(Take take) noexcept {
  try {
    return take();
  } catch (...) {
    while (true) ::pause();
  }
}

// Lets other Python threads run for as long as it lives; in place of nb::gil_scoped_release.
class WithoutGil {
 public:
  WithoutGil() noexcept : state_(PyEval_SaveThread()) {}
  ~WithoutGil() {
    take_gil([this] { PyEval_RestoreThread(state_); });
  }
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  friend class WithGil;
  PyThreadState* state_;
};

// The other way round, for a while inside a WithoutGil, with the thread state that this one has put
// aside. Not PyGILState_Ensure, nor nb::gil_scoped_acquire, which calls it: at the very end of an
// interpreter it looks for a thread state in what is gone by then, and crashes.
class WithGil {
 public:
  explicit WithGil(WithoutGil& outer) noexcept : outer_(outer) {
    take_gil([this] { PyEval_RestoreThread(outer_.state_); });
  }
  ~WithGil() { outer_.state_ = PyEval_SaveThread(); }
  WithGil(const WithGil&) = delete;
  WithGil& operator=(const WithGil&) = delete;

 private:
  WithoutGil& outer_;
};

using Seconds = std::optional<double>;

// As Python counts them; None waits for ever.
inline std::chrono::nanoseconds to_timeout(Seconds seconds) {
  constexpr double kForever = 1e9;
  if (seconds && std::isnan(*seconds))
    throw Error(Code::kInvalidArgument, "timeout=nan: expected seconds, or None");
  if (!seconds || *seconds >= kForever) return std::chrono::nanoseconds::max();
  if (!(*seconds > 0)) return std::chrono::nanoseconds::zero();
  return std::chrono::nanoseconds(static_cast<std::int64_t>(*seconds * 1e9));
}

}  // namespace tensorbus::python
