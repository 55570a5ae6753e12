#pragma once

#include <nanobind/nanobind.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tensorbus/bus/participant/participant_ref.hpp"
#include "tensorbus/bus/publish/loan.hpp"
#include "tensorbus/bus/publisher.hpp"
#include "tensorbus/bus/queue.hpp"
#include "tensorbus/bus/share.hpp"
#include "tensorbus/bus/share/handle.hpp"
#include "tensorbus/bus/subscribe/sample.hpp"
#include "tensorbus/bus/subscriber.hpp"
#include "tensorbus/platform/error.hpp"
#include "tensorbus/python/stable_abi.hpp"
#include "tensorbus/tensor/layout.hpp"

namespace tensorbus::python {

namespace nb = nanobind;

// Each function adds the classes of one file to the module.
void bind_errors(nb::module_& module);
void bind_waiting(nb::module_& module);
void bind_hooks(nb::module_& module);
void bind_message_plan(nb::module_& module);
void bind_packer(nb::module_& module);
void bind_fields_reader(nb::module_& module);
void bind_numpy(nb::module_& module);
void bind_memory(nb::module_& module);
void bind_files(nb::module_& module);
void bind_outgoing(nb::module_& module);
void bind_keepers(nb::module_& module);
void bind_log(nb::module_& module);
void bind_samples(nb::module_& module);
void bind_torch(nb::module_& module);
void bind_indices(nb::module_& module);
void bind_endpoints(nb::module_& module);
void bind_born(nb::module_& module);
void bind_shares(nb::module_& module);
void bind_plain_items(nb::module_& module);
void bind_queues(nb::module_& module);
void bind_mirror_queues(nb::module_& module);
void bind_ipc(nb::module_& module);
void bind_listing(nb::module_& module);
void bind_inspection(nb::module_& module);
void bind_doctor(nb::module_& module);
void bind_tracing(nb::module_& module);
void bind_recordings(nb::module_& module);
void bind_players(nb::module_& module);

// The class Participant of Python. Throws Error(kForked) in a forked child.
struct ParticipantHandle {
  bus::ParticipantRef participant;

  // NOLINTNEXTLINE(google-explicit-constructor): functions of the bus take it as it is
  operator const bus::ParticipantRef&() const { return bus::of_this_process(participant); }
  bus::Participant& operator*() const { return *bus::of_this_process(participant); }
  bus::Participant* operator->() const { return &**this; }
};

// Returns a function that takes a ParticipantHandle in place of the reference.
template <typename Result>
auto with_handle(Result (*function)(const bus::ParticipantRef&)) {
  return [function](const ParticipantHandle& participant) { return function(participant); };
}
template <typename Result, typename Arg>
auto with_handle(Result (*function)(Arg, const bus::ParticipantRef&)) {
  return [function](Arg arg, const ParticipantHandle& participant) {
    return function(arg, participant);
  };
}

// Returns a function of a handle that calls this function of its object.
template <typename Handle, typename T, typename Result, typename... Args>
auto through(Result (T::*function)(Args...)) {
  return [function](const Handle& self, Args... args) { return ((*self).*function)(args...); };
}
template <typename Handle, typename T, typename Result>
auto through(Result (T::*function)() const) {
  return [function](const Handle& self) { return ((*self).*function)(); };
}

// Takes over the new reference that a call of Python's C interface returned. Throws the Python
// exception if it is null. tests/house/test_extension_calls.py checks that the sources call
// nb::steal() nowhere else.
inline nb::object checked(PyObject* made) {
  if (made == nullptr) nb::raise_python_error();
  return nb::steal(made);
}

// Returns the UTF-8 of a str, valid as long as the str. Throws UnicodeEncodeError for a lone
// surrogate.
inline std::string_view utf8_of(nb::handle text) {
  Py_ssize_t size = 0;
  const char* const utf8 = PyUnicode_AsUTF8AndSize(text.ptr(), &size);
  if (utf8 == nullptr) nb::raise_python_error();
  return {utf8, static_cast<std::size_t>(size)};
}

// Converts bytes from a peer or of a file name to a str. Python accepts only UTF-8; `errors` is
// Python's error handler for other bytes.
inline nb::str text_of(std::string_view bytes, const char* errors = "replace") {
  return nb::borrow<nb::str>(
      checked(PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), errors)));
}

// A path of the operating system: bytes, which need not be UTF-8. Python has it as a str, converted
// as by os.fsdecode() and os.fsencode().
struct PathBytes {
  std::string bytes;
};

// Takes the GIL. While the interpreter ends, CPython before 3.14 ends a daemon thread that takes
// the GIL, with pthread_exit. That unwinds the stack, which must not pass destructors or noexcept
// functions. So this function catches the unwinding and waits for the end of the process, as
// CPython 3.14 does. The callees are C functions, which throw nothing else.
template <typename Take>
auto take_gil(Take take) noexcept {
  try {
    return take();
  } catch (...) {
    while (true) ::pause();
  }
}

// Releases the GIL while it lives. Replaces nb::gil_scoped_release.
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

// Runs `work` without the GIL, and returns its result.
template <typename Work>
auto run_without_gil(Work work) {
  const WithoutGil release;
  return work();
}

// Takes the GIL for a scope inside a WithoutGil, with the thread state saved there. Does not use
// PyGILState_Ensure (nor nb::gil_scoped_acquire, which calls it), because it reads freed memory and
// crashes at the very end of an interpreter.
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

// The access to received tensors in Python: the core's Access, and whether a write through a
// library without read-only tensors makes a private copy of the written page.
enum class TensorAccess { kCopyOnWrite, kRead, kPrivate, kShared };

inline Access core_access(TensorAccess access) {
  return access == TensorAccess::kPrivate  ? Access::kPrivate
         : access == TensorAccess::kShared ? Access::kShared
                                           : Access::kRead;
}

// The bytes of a tensor of a sample, or of several tensors that overlap.
struct TensorBytes {
  std::span<const std::byte> bytes;
  bool overlap;                       // of several tensors
  bool copied;                        // too small for private pages: all tensors show one copy
  std::shared_ptr<std::byte[]> copy;  // made on first use
};

// The ranges of a sample's bytes that need special handling: bytes of overlapping tensors, and
// copied bytes. Sorted by address. Guarded by the mutex in a Python without a GIL, otherwise by the
// GIL.
struct SpecialBytes {
  SpecialBytes() = default;
  // Only the ranges are moved; they stay valid. No other thread uses the sample during the move.
  SpecialBytes(SpecialBytes&& other) noexcept : found(std::move(other.found)) {}

  nb::ft_mutex mutex;
  std::optional<std::vector<TensorBytes>> found;  // empty: not looked for yet
};

// The class Sample of Python.
struct ReceivedSample : bus::Sample {
  ReceivedSample() = default;
  explicit ReceivedSample(bus::Sample&& sample, bool no_writes = false)
      : bus::Sample(std::move(sample)), strict(no_writes) {}

  bool strict = false;  // no library may write to its tensors
  // Number of the sample in this process; identifies the sample whose writes a private page shows.
  // Relaxed: only the value matters.
  std::uint64_t number = newest.fetch_add(1, std::memory_order_relaxed) + 1;
  mutable SpecialBytes special;

 private:
  static inline constinit std::atomic<std::uint64_t> newest{0};
};

inline nb::object sample_or_outcome(Outcome outcome, bus::Sample&& sample, bool strict = false) {
  return outcome == Outcome::kDone ? nb::cast(ReceivedSample(std::move(sample), strict))
                                   : nb::cast(outcome);
}

using Seconds = std::optional<double>;

// Converts Python's seconds; None means no timeout.
inline std::chrono::nanoseconds to_timeout(Seconds seconds) {
  constexpr double kForever = 1e9;
  if (seconds && std::isnan(*seconds))
    throw Error(Code::kInvalidArgument, "timeout=nan: expected seconds, or None");
  if (!seconds || *seconds >= kForever) return std::chrono::nanoseconds::max();
  if (!(*seconds > 0)) return std::chrono::nanoseconds::zero();
  return std::chrono::nanoseconds(static_cast<std::int64_t>(*seconds * 1e9));
}

}  // namespace tensorbus::python

namespace nanobind::detail {

template <>
struct type_caster<tensorbus::python::PathBytes> {
  NB_TYPE_CASTER(tensorbus::python::PathBytes, const_name("str"))

  bool from_python(handle source, std::uint32_t, cleanup_list*) noexcept {
    if (!PyUnicode_Check(source.ptr())) return false;
    PyObject* const encoded = PyUnicode_EncodeFSDefault(source.ptr());
    if (encoded == nullptr) {
      PyErr_Clear();
      return false;
    }
    value.bytes.assign(tensorbus::python::bytes_value(encoded));
    Py_DECREF(encoded);
    return true;
  }

  static handle from_cpp(const tensorbus::python::PathBytes& path, rv_policy,
                         cleanup_list*) noexcept {
    return PyUnicode_DecodeFSDefaultAndSize(path.bytes.data(),
                                            static_cast<Py_ssize_t>(path.bytes.size()));
  }
};

}  // namespace nanobind::detail
