#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <tensorbus/internal/one_or_many.hpp>
#include <tensorbus/layout.hpp>
#include <tensorbus/message.hpp>

#include "tensorbus/bus/copy/copy_plan.hpp"
#include "tensorbus/bus/copy/copy_tuner.hpp"
#include "tensorbus/bus/copy/device_tensors.hpp"
#include "tensorbus/bus/publish/outgoing_sample.hpp"
#include "tensorbus/link/ring/lease_index.hpp"
#include "tensorbus/memory/host/arena.hpp"
#include "tensorbus/tensor/descriptor.hpp"

namespace tensorbus::bus {

// A message whose tensors are in the arena and whose descriptor is written: ready to be pushed to
// any number of links. Until it is published, dropping it undoes everything.
class SampleBuilder {
 public:
  // Where memory comes from.
  struct Supplies {
    memory::Arena& arena;
    memory::DeviceMemory& device_memory;
    std::function<memory::BlockRef(std::size_t)> allocate;  // throws when there is none
    DeviceTensors::Allocate allocate_on;                    // the same
    CopyTuner& copies;
    memory::PoolId pool;  // of all host memory of ours that is published; .most: of all memory
    const Id& self;
    const link::LeaseIndex& lent;
    bool again = false;  // loans may have been published before, and may be again
  };

  // `tensors` travel, and of `rest` everything but its tensors. Tensors that lie in a loan, or in
  // memory that was lent to us, travel by reference, all others are copied into one block. If
  // `loan` is given, all of them lie in it. Throws Error(kInvalidArgument) for a loan that was
  // published before, for one of a publisher that grants more or less than this one, and for a
  // malformed layout. Host memory of an isolated publisher's pool is copied by all others, and an
  // isolated publisher copies all that is not of its own; but files are lent as ever.
  SampleBuilder(std::span<const TensorView> tensors, const Message& rest, const Supplies& supplies,
                const memory::BlockRef* loan = nullptr);
  ~SampleBuilder() { return_loans(); }
  SampleBuilder(const SampleBuilder&) = delete;
  SampleBuilder& operator=(const SampleBuilder&) = delete;

  OutgoingSample& ready() noexcept { return ready_; }
  const link::Entry& entry() const noexcept { return ready_.entry; }
  const link::PublishedRef& issued() const noexcept { return ready_.issued; }
  // Without its fields.
  const Descriptor& descriptor() const noexcept { return descriptor_; }
  memory::Grant most_granted() const noexcept { return most_granted_; }

  // The loans are spent.
  void mark_done() noexcept { marked_.clear(); }

 private:
  bool lend_file(TensorEntry& entry, const std::byte* data, const ByteSpan& span,
                 const Supplies& supplies);
  bool hand_on(TensorEntry& entry, const TensorView& view, const ByteSpan& span,
               const Supplies& supplies, Descriptor& descriptor);
  bool lend_foreign(TensorEntry& entry, const TensorView& view, const ByteSpan& span,
                    const Supplies& supplies);
  bool copy_on_device(std::size_t tensor, const TensorView& view, const ByteSpan& span);
  void copy_on_devices(std::span<const TensorView> tensors, const Supplies& supplies,
                       Descriptor& descriptor);
  void hold(memory::BlockRef block);
  memory::Block* take_loan(const TensorView& view, const ByteSpan& span, const Supplies& supplies,
                           const memory::BlockRef* loan);
  std::size_t place_tensors(std::span<const TensorView> tensors, const Supplies& supplies,
                            const memory::BlockRef* loan, Descriptor& descriptor);
  void copy_tensors(memory::Block& block, std::size_t bytes, CopyTuner& copies,
                    Descriptor& descriptor);
  void return_loans() noexcept;

  OutgoingSample ready_;
  Descriptor descriptor_;
  OneOrMany<memory::BlockRef> blocks_;           // move into issued_ when all is there
  OneOrMany<memory::SegmentId> files_;           // segments of files that it lies in; the same
  OneOrMany<std::shared_ptr<const void>> kept_;  // these files; the same
  OneOrMany<std::shared_ptr<const link::Lease>> leases_;  // of what is handed on; the same
  OneOrMany<memory::Block*> marked_;                      // the blocks that we marked as published
  CopyPlan copies_;
  DeviceTensors device_tensors_;
  memory::Grant most_granted_;
};

}  // namespace tensorbus::bus
