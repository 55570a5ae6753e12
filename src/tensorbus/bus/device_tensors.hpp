#pragma once

#include <cstddef>
#include <functional>
#include <optional>

#include "tensorbus/bus/message.hpp"
#include "tensorbus/memory/block.hpp"
#include "tensorbus/memory/cuda_memory.hpp"
#include "tensorbus/tensor/few.hpp"

namespace tensorbus::bus {

// The tensors of one message that lie on GPUs, and the stream that writes them (docs/cuda.md).
class DeviceTensors {
 public:
  // `stream` is that of Message.
  explicit DeviceTensors(void* stream) noexcept : stream_(stream) {}

  // A copy of the tensor's bytes, from its lowest on, in a block that `allocate` gives: made on the
  // GPU, in the stream's order. Throws Error(kUnsupported) for a view of too few of them.
  using Allocate = std::function<memory::BlockRef(const Device&, std::size_t)>;
  memory::BlockRef copy(const TensorView& view, const ByteSpan& span, const Allocate& allocate);

  // Has the stream that writes the tensor be waited for.
  void add(const Device& device);
  // When the stream has passed, the blocks are whole. Throws what WriteMarks throws.
  void mark(memory::WriteMarks& marks, const Few<memory::BlockRef>& blocks) const;
  // Null if there are no tensors on GPUs.
  const platform::CudaStream* writer() const noexcept { return writer_ ? &*writer_ : nullptr; }

 private:
  void* const stream_;
  std::optional<platform::CudaStream> writer_;
};

}  // namespace tensorbus::bus
