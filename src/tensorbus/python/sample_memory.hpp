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

// Returns the tensors of the sample that `wanted` selects, sorted by address.
template <typename Wanted>
std::vector<PlacedBytes> placed_tensors(const ReceivedSample& self, Wanted wanted) {
  return bus::placed_tensors(self.tensors(), wanted);
}

// Like for_each_run(), but only for ranges in which several tensors overlap.
template <typename Visit>
void for_each_overlap(std::span<const PlacedBytes> placed, Visit visit) {
  for_each_run(placed, [&](std::byte* begin, std::byte* end, std::span<const PlacedBytes> members) {
    if (members.size() > 1) visit(begin, end, members);
  });
}

// If the sample is traced: records that the program uses it.
void note_use(const ReceivedSample& self) noexcept;
// Returns true if the tensor must become a PyTorch tensor. `library` is the requested library; if
// it is empty, the library is the one of the published tensor.
bool is_for_torch(const Layout& layout, std::optional<std::string_view> library);
// If this process has written to these pages through another sample, makes `memory` refer to a
// second mapping that has the published bytes.
void show_what_was_published(Memory& memory);
// Returns the memory of a tensor. Throws Error(kProtocol) if the index is invalid.
Memory memory(const ReceivedSample& self, std::size_t index);
// Returns true if tensors that must become PyTorch tensors overlap in memory.
bool has_shared_storages(const ReceivedSample& self, std::optional<std::string_view> library);
// Returns, for each range of memory in which several torch tensors overlap, its bytes, and the
// indices and offsets of these tensors.
nb::list shared_storages(const ReceivedSample& self, std::optional<std::string_view> library);

}  // namespace tensorbus::python
