#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <tensorbus/internal/one_or_many.hpp>
#include <tensorbus/layout.hpp>
#include <tensorbus/message.hpp>
#include <utility>
#include <vector>

#include "tensorbus/bus/copy/device_plan.hpp"
#include "tensorbus/device/memory/device_memory.hpp"
#include "tensorbus/memory/block.hpp"

namespace tensorbus::bus {

// The tensors of one message that lie on GPUs, and the streams that write them (docs/cuda.md): all
// are waited for by one of them, so that the message has one mark.
class DeviceTensors {
 public:
  // What is being done, for messages.
  static constexpr const char* kPublishing = "Publishing GPU memory";
  // The one that writes it.
  static platform::GpuStream stream_of(const TensorView& view);

  // One whose bytes are to be copied. Throws as add() does.
  void add_copy(std::size_t tensor, const TensorView& view, const ByteSpan& span);
  // Copies them, into a block of each device that `allocate` gives: on the GPU, in the order of
  // their streams, and marked at once, since the message may come to nothing. `placed` is told of
  // each where its lowest byte lies. Returns how many bytes were copied. Throws Error(kUnsupported)
  // for a view of too few of them.
  using Allocate = std::function<memory::BlockRef(const Device&, std::size_t)>;
  using Placed =
      std::function<void(std::size_t tensor, const memory::BlockRef&, std::size_t offset)>;
  std::size_t copy(const Allocate& allocate, memory::WriteMarks& marks, const Placed& placed);
  bool has_copies() const noexcept { return !copies_.empty(); }

  // One that lies in a loan. Throws Error(kUnsupported) for a stream that is being captured into a
  // graph.
  void add(const TensorView& view);
  // When the streams have passed, the loans are whole, as the copies are by now. Throws what
  // WriteMarks throws.
  void mark(memory::WriteMarks& marks, const OneOrMany<memory::BlockRef>& blocks) const;
  // The one that waits for all. Null if there are no tensors on GPUs.
  const platform::GpuStream* writer() const noexcept { return writer_ ? &*writer_ : nullptr; }

 private:
  // What is copied on one device.
  struct Copies {
    DevicePlan plan;
    std::vector<platform::GpuStream> streams{};                       // that write it
    std::vector<std::pair<std::size_t, const std::byte*>> tensors{};  // with their lowest bytes
  };
  static void fill(const Copies& copies, const memory::BlockRef& block, memory::WriteMarks& marks);
  void join(const platform::GpuStream& stream);

  std::optional<platform::GpuStream> writer_;
  bool loans_ = false;
  std::map<int, Copies> copies_;  // by ordinal
};

}  // namespace tensorbus::bus
