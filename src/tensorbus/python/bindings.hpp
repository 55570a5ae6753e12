#pragma once

#include <nanobind/nanobind.h>

#include <chrono>
#include <limits>
#include <optional>

#include "tensorbus/tensorbus.hpp"

namespace tensorbus::python {

namespace nb = nanobind;

// Each adds the classes of one file to the module.
void bind_errors(nb::module_& module);
void bind_tensors(nb::module_& module);
void bind_endpoints(nb::module_& module);

// Seconds, as Python counts them; None waits for ever.
inline std::chrono::nanoseconds to_timeout(std::optional<double> seconds) {
  constexpr double kForever = 1e9;
  if (!seconds || *seconds >= kForever) return std::chrono::nanoseconds::max();
  if (!(*seconds > 0)) return std::chrono::nanoseconds::zero();
  return std::chrono::nanoseconds(static_cast<std::int64_t>(*seconds * 1e9));
}

}  // namespace tensorbus::python
