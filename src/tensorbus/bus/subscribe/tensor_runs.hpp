#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "tensorbus/bus/subscribe/sample.hpp"

namespace tensorbus::bus {

// The bytes of a tensor in this process.
struct PlacedBytes {
  std::byte* begin;
  std::byte* end;
  std::size_t tensor;
};

// Returns the tensors with bytes for which wanted() is true, by ascending address.
template <typename Wanted>
std::vector<PlacedBytes> placed_tensors(std::span<const Tensor> tensors, Wanted wanted) {
  std::vector<PlacedBytes> placed;
  placed.reserve(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& tensor = tensors[i];
    const ByteSpan span = span_of(tensor.layout());
    auto* first = const_cast<std::byte*>(tensor.data());
    if (span.bytes() != 0 && wanted(tensor))
      placed.push_back({first + span.begin, first + span.end, i});
  }
  std::sort(placed.begin(), placed.end(),
            [](const PlacedBytes& a, const PlacedBytes& b) { return a.begin < b.begin; });
  return placed;
}

// Calls visit(begin, end, members) for each range of bytes: of one tensor, or of overlapping
// tensors.
template <typename Visit>
void for_each_run(std::span<const PlacedBytes> placed, Visit visit) {
  for (std::size_t first = 0, last = 0; first < placed.size(); first = last) {
    std::byte* end = placed[first].end;
    for (last = first + 1; last < placed.size() && placed[last].begin < end; ++last)
      end = std::max(end, placed[last].end);
    visit(placed[first].begin, end, placed.subspan(first, last - first));
  }
}

}  // namespace tensorbus::bus
