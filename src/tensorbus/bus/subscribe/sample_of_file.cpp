// Samples of a recording.
#include <cstring>
#include <utility>

#include "tensorbus/bus/subscribe/sample_data.hpp"

namespace tensorbus::bus {
namespace {

bool is_aligned(const std::byte* first, DType dtype) {
  return reinterpret_cast<std::uintptr_t>(first) % item_bytes(dtype) == 0;
}

// Returns the bytes of a tensor in new memory, aligned for every dtype.
std::shared_ptr<const std::byte> aligned_copy(const std::byte* begin, std::size_t bytes) {
  constexpr std::align_val_t kTensorAlignment{64};
  std::shared_ptr<std::byte> copy(
      static_cast<std::byte*>(::operator new(bytes, kTensorAlignment)),
      [](std::byte* mine) { ::operator delete(mine, kTensorAlignment); });
  std::memcpy(copy.get(), begin, bytes);
  return copy;
}

}  // namespace

Sample SampleData::of_file(const SampleHeader& header, std::shared_ptr<const link::Source> source,
                           std::vector<std::byte> head, const tensor::mcap::MessageHead& decoded,
                           const std::byte* data, const std::shared_ptr<const void>& keeper) {
  auto parts = std::make_unique<SampleData>();
  parts->header = header;
  parts->header.topic = source->topic;
  parts->mirrored = source->origin.get();
  parts->source = std::move(source);
  parts->block_bytes = std::move(head);  // the bytes do not move
  parts->fields = decoded.fields;
  parts->tensors.resize(decoded.tensors.size());
  for (std::size_t i = 0; i < decoded.tensors.size(); ++i) {
    Tensor& tensor = parts->tensors[i];
    const Layout& layout = decoded.tensors[i].layout;
    tensor.layout_ = layout;
    tensor.published_on_ = decoded.tensors[i].published_on;
    const ByteSpan span = span_of(layout);
    if (span.bytes() == 0) continue;
    tensor.data_ = data + decoded.tensors[i].offset;
    tensor.keeper_ = keeper;
    if (is_aligned(tensor.data_, layout.dtype)) continue;
    const auto copy = aligned_copy(tensor.data_ + span.begin, span.bytes());
    tensor.data_ = copy.get() - span.begin;
    tensor.keeper_ = copy;
  }
  Sample sample;
  sample.parts_ = std::move(parts);
  return sample;
}

}  // namespace tensorbus::bus
