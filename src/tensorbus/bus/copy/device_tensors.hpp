#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <tensorbus/internal/one_or_many.hpp>
#include <tensorbus/values/layout.hpp>
#include <tensorbus/values/message.hpp>
#include <utility>
#include <vector>

#include "tensorbus/bus/copy/device_plan.hpp"
#include "tensorbus/device/memory/device_memory.hpp"
#include "tensorbus/memory/block.hpp"

namespace tensorbus::bus {

// The tensors of one message that lie on GPUs, and the streams that write them (docs/cuda.md). One
// stream waits for all others, so that the message has one mark. Not thread-safe.
class DeviceTensors {
 public:
  // The name of the operation in messages.
  static constexpr const char* kPublishing = "Publishing GPU memory";
  // Returns the stream that writes the tensor.
  static device::GpuStream stream_of(const TensorView& view);

  // Adds a tensor that must be copied. Throws like add().
  void add_copy(std::size_t tensor, const TensorView& view, const ByteSpan& span);
  // Copies these tensors into one block of each device, which `allocate` returns. The copies run on
  // the GPU, in stream order, and get their marks at once, because the message may fail later.
  // Calls `placed` with the place of each tensor's lowest byte. Returns the number of copied bytes.
  // Throws Error(kUnsupported) if too few bytes of a view belong to elements.
  using Allocate = std::function<memory::BlockRef(const Device&, std::size_t)>;
  using Placed =
      std::function<void(std::size_t tensor, const memory::BlockRef&, std::size_t offset)>;
  std::size_t copy(const Allocate& allocate, device::WriteMarks& marks, const Placed& placed);
  bool has_copies() const noexcept { return !copies_.empty(); }

  // Adds a tensor that lies in a loan. Throws Error(kUnsupported) for a stream that is being
  // captured into a graph.
  void add(const TensorView& view);
  // Marks the loans as complete when the streams have finished; the copies already have their
  // marks. Throws what WriteMarks throws.
  void mark(device::WriteMarks& marks, const OneOrMany<memory::BlockRef>& blocks) const;
  // Returns the stream that waits for all others; null without tensors on GPUs.
  const device::GpuStream* writer() const noexcept { return writer_ ? &*writer_ : nullptr; }

 private:
  // The copies on one device.
  struct Copies {
    DevicePlan plan;
    std::vector<device::GpuStream> streams{};                         // that write the tensors
    std::vector<std::pair<std::size_t, const std::byte*>> tensors{};  // with their lowest bytes
  };
  static void fill(const Copies& copies, const memory::BlockRef& block, device::WriteMarks& marks);
  void join(const device::GpuStream& stream);

  std::optional<device::GpuStream> writer_;
  bool loans_ = false;
  std::map<int, Copies> copies_;  // by ordinal
};

}  // namespace tensorbus::bus
