#pragma once

#include <cstddef>
#include <functional>
#include <optional>

#include "tensorbus/bus/message.hpp"
#include "tensorbus/memory/block.hpp"
#include "tensorbus/memory/cuda_memory.hpp"
#include "tensorbus/tensor/few.hpp"

namespace tensorbus::bus {

// The tensors of one message that lie on GPUs, and the streams that write them (docs/cuda.md): all
// are waited for by one of them, so that the message has one mark.
class DeviceTensors {
 public:
  // What is being done, for messages.
  static constexpr const char* kPublishing = "Publishing CUDA memory";
  // The one that writes it.
  static platform::CudaStream stream_of(const TensorView& view);

  // A copy of the tensor's bytes, from its lowest on, in a block that `allocate` gives: made on the
  // GPU, in the stream's order, and marked at once, since the message may come to nothing. Throws
  // Error(kUnsupported) for a view of too few of them.
  using Allocate = std::function<memory::BlockRef(const Device&, std::size_t)>;
  memory::BlockRef copy(const TensorView& view, const ByteSpan& span, const Allocate& allocate,
                        memory::WriteMarks& marks);

  // One that lies in a loan. Throws Error(kUnsupported) for a stream that is being captured into a
  // graph.
  void add(const TensorView& view);
  // When the streams have passed, the loans are whole, as the copies are by now. Throws what
  // WriteMarks throws.
  void mark(memory::WriteMarks& marks, const Few<memory::BlockRef>& blocks) const;
  // The one that waits for all. Null if there are no tensors on GPUs.
  const platform::CudaStream* writer() const noexcept { return writer_ ? &*writer_ : nullptr; }

 private:
  void join(const platform::CudaStream& stream);

  std::optional<platform::CudaStream> writer_;
  bool loans_ = false;
};

}  // namespace tensorbus::bus
