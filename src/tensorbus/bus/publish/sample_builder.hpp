#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <tensorbus/internal/one_or_many.hpp>
#include <tensorbus/values/layout.hpp>
#include <tensorbus/values/message.hpp>

#include "tensorbus/bus/copy/copy_plan.hpp"
#include "tensorbus/bus/copy/copy_tuner.hpp"
#include "tensorbus/bus/copy/device_tensors.hpp"
#include "tensorbus/bus/publish/outgoing_sample.hpp"
#include "tensorbus/link/ring/lease_index.hpp"
#include "tensorbus/memory/host/arena.hpp"
#include "tensorbus/tensor/descriptor.hpp"

namespace tensorbus::bus {

// Makes an OutgoingSample of any message, for any number of links: finds or copies its tensors and
// writes its descriptor. If this object is destroyed before mark_done(), its changes are undone.
// Used by one thread.
class SampleBuilder {
 public:
  // Allocates blocks for copies. Throws if memory is short.
  class Allocator {
   public:
    virtual memory::BlockRef allocate(std::size_t bytes) const = 0;
    virtual memory::BlockRef allocate_on(const Device& device, std::size_t bytes) const = 0;

   protected:
    ~Allocator() = default;
  };
  // The inputs for making a sample.
  struct Supplies {
    memory::Arena& arena;
    device::DeviceMemory& device_memory;
    const Allocator& blocks;
    CopyTuner& copies;
    memory::PoolId pool;  // of the published host memory; `.most` applies to all memory
    const Id& self;
    const link::LeaseIndex& lent;
    bool again = false;  // a loan may be published more than once
  };

  // Builds a sample of `tensors` and of all of `rest` except its tensors. Tensors in a loan, in a
  // mapped file or in borrowed memory are passed by reference; others are copied, on the host into
  // one block. If `loan` is given, all tensors must lie in it. Throws Error(kInvalidArgument) for a
  // loan that was published before, for a loan of a publisher with another grant, and for a
  // malformed layout. An isolated publisher copies host memory of other pools, and other publishers
  // copy its memory; both lend files.
  SampleBuilder(std::span<const TensorView> tensors, const Message& rest, const Supplies& supplies,
                const memory::BlockRef* loan = nullptr);
  ~SampleBuilder() { return_loans(); }
  SampleBuilder(const SampleBuilder&) = delete;
  SampleBuilder& operator=(const SampleBuilder&) = delete;

  OutgoingSample& ready() noexcept { return ready_; }
  const link::Entry& entry() const noexcept { return ready_.entry; }
  const link::PublishedRef& issued() const noexcept { return ready_.issued; }
  // Returns the descriptor without its fields.
  const tensor::Descriptor& descriptor() const noexcept { return descriptor_; }
  memory::Grant max_grant() const noexcept { return max_grant_; }

  // Keeps the loans marked as published.
  void mark_done() noexcept { marked_.clear(); }

 private:
  bool lend_file(tensor::TensorEntry& entry, const std::byte* data, const ByteSpan& span,
                 const Supplies& supplies);
  bool hand_on(tensor::TensorEntry& entry, const TensorView& view, const ByteSpan& span,
               const Supplies& supplies, tensor::Descriptor& descriptor);
  bool lend_foreign(tensor::TensorEntry& entry, const TensorView& view, const ByteSpan& span,
                    const Supplies& supplies);
  bool copy_on_device(std::size_t tensor, const TensorView& view, const ByteSpan& span);
  void copy_on_devices(std::span<const TensorView> tensors, const Supplies& supplies,
                       tensor::Descriptor& descriptor);
  void hold(memory::BlockRef block);
  memory::Block* take_loan(const TensorView& view, const ByteSpan& span, const Supplies& supplies,
                           const memory::BlockRef* loan);
  std::size_t place_tensors(std::span<const TensorView> tensors, const Supplies& supplies,
                            const memory::BlockRef* loan, tensor::Descriptor& descriptor);
  void copy_tensors(memory::Block& block, std::size_t bytes, CopyTuner& copies,
                    tensor::Descriptor& descriptor);
  void return_loans() noexcept;

  OutgoingSample ready_;
  tensor::Descriptor descriptor_;
  OneOrMany<memory::BlockRef> blocks_;                    // moves into the published sample
  OneOrMany<memory::SegmentId> files_;                    // segments of lent files; moves, too
  OneOrMany<std::shared_ptr<const void>> kept_;           // keeps lent files mapped; moves, too
  OneOrMany<std::shared_ptr<const link::Lease>> leases_;  // on handed-on memory; moves, too
  OneOrMany<memory::Block*> marked_;  // blocks that this object has marked as published
  CopyPlan copies_;
  DeviceTensors device_tensors_;
  memory::Grant max_grant_;
};

}  // namespace tensorbus::bus
