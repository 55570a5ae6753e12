#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "tensorbus/bus/subscribe/tensor_runs.hpp"
#include "tensorbus/python/bindings.hpp"
#include "tensorbus/python/memory.hpp"

namespace tensorbus::python {

using bus::for_each_run;
using bus::PlacedBytes;

// Returns the sample's tensors that `wanted` says, the lowest first.
template <typename Wanted>
std::vector<PlacedBytes> placed_tensors(const ReceivedSample& self, Wanted wanted) {
  return bus::placed_tensors(self.tensors(), wanted);
}

// for_each_run() for the ranges in which several of them overlap.
template <typename Visit>
void for_each_overlap(std::span<const PlacedBytes> placed, Visit visit) {
  for_each_run(placed, [&](std::byte* begin, std::byte* end, std::span<const PlacedBytes> members) {
    if (members.size() > 1) visit(begin, end, members);
  });
}

// Tells a tracer that the program looks at this sample.
void note_use(const ReceivedSample& self) noexcept;
// Returns true if the tensor is to be one of PyTorch; `library` is what the program asked for.
bool is_for_torch(const Layout& layout, std::optional<std::string_view> library);
// If this process has written to another sample in these pages, points at their bytes elsewhere.
void show_what_was_published(Memory& memory);
// Throws Error(kProtocol) if there is no tensor of this index.
Memory memory(const ReceivedSample& self, std::size_t index);
// Returns true if some of the tensors that are to be PyTorch's overlap in memory.
bool has_shared_storages(const ReceivedSample& self, std::optional<std::string_view> library);
// For each range of memory in which several torch tensors overlap: returns its bytes, and these
// tensors with their offsets in it.
nb::list shared_storages(const ReceivedSample& self, std::optional<std::string_view> library);

}  // namespace tensorbus::python
