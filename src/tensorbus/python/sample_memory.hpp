#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "tensorbus/python/bindings.hpp"
#include "tensorbus/python/memory.hpp"

namespace tensorbus::python {

// The bytes of a tensor in this process.
struct Placed {
  std::byte* begin;
  std::byte* end;
  std::size_t tensor;
};

// Returns the sample's tensors that `wanted` says, the lowest first.
template <typename Wanted>
std::vector<Placed> placed_tensors(const ReceivedSample& self, Wanted wanted) {
  std::vector<Placed> placed;
  placed.reserve(self.tensors().size());
  for (std::size_t i = 0; i < self.tensors().size(); ++i) {
    const Tensor& tensor = self.tensors()[i];
    const ByteSpan span = span_of(tensor.layout());
    auto* first = const_cast<std::byte*>(tensor.data());
    if (span.bytes() != 0 && wanted(tensor))
      placed.push_back({first + span.begin, first + span.end, i});
  }
  std::sort(placed.begin(), placed.end(),
            [](const Placed& a, const Placed& b) { return a.begin < b.begin; });
  return placed;
}

// Calls visit(begin, end, members) for each range of bytes: of one of them, or of some that
// overlap.
template <typename Visit>
void for_each_run(std::span<const Placed> placed, Visit visit) {
  for (std::size_t first = 0, last = 0; first < placed.size(); first = last) {
    std::byte* end = placed[first].end;
    for (last = first + 1; last < placed.size() && placed[last].begin < end; ++last)
      end = std::max(end, placed[last].end);
    visit(placed[first].begin, end, placed.subspan(first, last - first));
  }
}

// The same for the ranges in which several of them overlap.
template <typename Visit>
void for_each_overlap(std::span<const Placed> placed, Visit visit) {
  for_each_run(placed, [&](std::byte* begin, std::byte* end, std::span<const Placed> members) {
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
