#pragma once

#include <string>
#include <utility>

#include "tensorbus/platform/error.hpp"

namespace tensorbus {

// The result of a probe: the reason why the machine cannot do something, or none if it can.
struct ProbeResult {
  std::string why_not;  // empty if it can

  bool can() const noexcept { return why_not.empty(); }
};

// Runs a probe that throws an Error if the machine cannot do it.
template <typename Probe>
ProbeResult found_by(Probe&& probe) {
  try {
    std::forward<Probe>(probe)();
    return {};
  } catch (const Error& error) {
    return {error.what()};
  }
}

}  // namespace tensorbus
