#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include "tensorbus/link/trace/trace_record.hpp"
#include "tensorbus/platform/export.hpp"

namespace tensorbus::link {

// The samples from which the calling thread makes the samples that it publishes next. Each thread
// has a list of its own.
class TraceParents {
 public:
  static constexpr std::size_t kMax = 16;  // more are left out

  // Replaces the samples named before; an empty span clears them.
  TENSORBUS_API static void name(std::span<const SampleName> parents) noexcept;
  static std::span<const SampleName> of_this_thread() noexcept;
};

}  // namespace tensorbus::link
