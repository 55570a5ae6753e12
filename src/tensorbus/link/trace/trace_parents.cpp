#include "tensorbus/link/trace/trace_parents.hpp"

#include <cstring>

namespace tensorbus::link {
namespace {

struct Named {
  std::array<SampleName, TraceParents::kMax> names;
  std::size_t count = 0;
};
thread_local constinit Named named;

}  // namespace

void TraceParents::name(std::span<const SampleName> parents) noexcept {
  named.count = std::min(parents.size(), kMax);
  std::copy_n(parents.begin(), named.count, named.names.begin());
}

std::span<const SampleName> TraceParents::of_this_thread() noexcept {
  return std::span(named.names).first(named.count);
}

}  // namespace tensorbus::link
