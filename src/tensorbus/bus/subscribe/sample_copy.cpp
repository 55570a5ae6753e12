#include <algorithm>
#include <new>
#include <string>

#include "tensorbus/bus/copy/copy_plan.hpp"
#include "tensorbus/bus/subscribe/sample_data.hpp"
#include "tensorbus/platform/limits.hpp"

namespace tensorbus::bus {

namespace {

constexpr std::align_val_t kAlignment{64};

std::shared_ptr<std::byte> private_memory(std::size_t bytes) {
  void* memory = ::operator new(bytes, kAlignment, std::nothrow);
  if (memory == nullptr)
    throw Error(Code::kOutOfMemory, "no memory for a copy of " + std::to_string(bytes) +
                                        " bytes: the address space (RLIMIT_AS) or the machine's "
                                        "memory is used up");
  return {static_cast<std::byte*>(memory),
          [](std::byte* mine) { ::operator delete(mine, kAlignment); }};
}

}  // namespace

Sample SampleData::copy_of(const SampleData& original) {
  auto parts = std::make_unique<SampleData>();
  parts->source = std::make_shared<const link::Source>(
      link::Source{original.header.publisher, original.header.publisher_number,
                   std::string(original.header.topic),
                   original.mirrored == nullptr
                       ? nullptr
                       : std::make_shared<const link::MirrorOrigin>(*original.mirrored)});
  parts->mirrored = parts->source->origin.get();
  parts->header = original.header;
  parts->header.topic = parts->source->topic;
  parts->block_bytes.assign(original.fields.begin(), original.fields.end());
  parts->fields = parts->block_bytes;

  const std::span<const Tensor> tensors = original.tensors.span();
  std::vector<TensorView> views;
  views.reserve(tensors.size());  // the plan refers to them
  CopyPlan plan;
  parts->tensors.resize(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    parts->tensors[i].layout_ = tensors[i].layout();
    parts->tensors[i].writable_ = true;
    parts->tensors[i].published_on_ = tensors[i].published_on();
    const ByteSpan span = span_of(tensors[i].layout());
    views.push_back({tensors[i].data(), tensors[i].layout()});
    if (span.bytes() != 0 && tensors[i].device().is_host()) plan.add(i, views.back(), span);
  }
  parts->copier = original.copier;
  if (!parts->copier &&
      std::ranges::any_of(tensors, [](const Tensor& tensor) { return tensor.device().is_cuda(); }))
    throw Error(Code::kUnsupported,
                "memory that a CUDA IPC handle opened is not copied here: use cudaMemcpyAsync");
  if (parts->copier) parts->copy_on_devices(*parts->copier, tensors);
  const std::shared_ptr<std::byte> memory = private_memory(plan.lay_out());
  plan.fill(memory.get(), tensor::Stores::kOrdinary);
  for (const CopyPlan::Copy& copy : plan.copies()) {
    Tensor& tensor = parts->tensors[copy.tensor];
    tensor.data_ = memory.get() + copy.place - span_of(copy.layout).begin;
    tensor.layout_ = copy.layout;
    tensor.keeper_ = memory;
  }
  Sample sample;
  sample.parts_ = std::move(parts);
  return sample;
}

Sample Sample::copy() const {
  return platform::with_memory_errors([&] { return SampleData::copy_of(parts()); });
}

}  // namespace tensorbus::bus
