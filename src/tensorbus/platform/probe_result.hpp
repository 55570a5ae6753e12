#pragma once

#include <string>
#include <utility>

#include "tensorbus/platform/error.hpp"

namespace tensorbus {

// What a probe found: it can, or why it cannot.
struct ProbeResult {
  std::string why_not;  // empty: it can

  bool can() const noexcept { return why_not.empty(); }
};

// Of a probe that throws an Error where something cannot.
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
