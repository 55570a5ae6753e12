#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>

#include "tensorbus/bus/copy_plan.hpp"
#include "tensorbus/bus/message.hpp"
#include "tensorbus/link/issued_sample.hpp"
#include "tensorbus/link/sample_ring.hpp"
#include "tensorbus/memory/arena.hpp"
#include "tensorbus/tensor/descriptor.hpp"
#include "tensorbus/tensor/few.hpp"

namespace tensorbus::bus {

// A message whose tensors are in the arena and whose descriptor is written: ready to be pushed to
// any number of links. Until it is published, dropping it undoes everything.
class PreparedSample {
 public:
  // Where memory comes from.
  struct Supplies {
    memory::Arena& arena;
    std::function<memory::BlockRef(std::size_t)> allocate;  // throws when there is none
    memory::Grant most_granted;                             // of all that is published
    const std::shared_ptr<link::ByteCounter>& in_flight;
  };

  // `tensors` travel, and of `rest` everything but its tensors. Tensors that lie in a loan travel
  // by reference, all others are copied into one block. If `loan` is given, all of them lie in it.
  // Throws Error(kInvalidArgument) for a loan that was published before, for one of a publisher
  // that grants more or less than this one, and for a malformed layout.
  PreparedSample(std::span<const TensorView> tensors, const Message& rest, const Supplies& supplies,
                 const memory::BlockRef* loan = nullptr);
  ~PreparedSample() { return_loans(); }
  PreparedSample(const PreparedSample&) = delete;
  PreparedSample& operator=(const PreparedSample&) = delete;

  const link::Entry& entry() const noexcept { return entry_; }
  const link::IssuedRef& issued() const noexcept { return issued_; }
  std::size_t copied_bytes() const noexcept { return copied_bytes_; }

  // The loans are spent.
  void mark_done() noexcept { loans_ = 0; }

 private:
  memory::Block* take_loan(const std::byte* first, std::size_t bytes, const Supplies& supplies,
                           const memory::BlockRef* loan);
  std::size_t place_tensors(std::span<const TensorView> tensors, const Supplies& supplies,
                            const memory::BlockRef* loan, Descriptor& descriptor);
  void copy_tensors(memory::Block& block, Descriptor& descriptor);
  void return_loans() noexcept;

  link::Entry entry_;
  Few<memory::BlockRef> blocks_;  // loans first; moves into issued_ when all is there
  std::size_t loans_ = 0;         // so many of the blocks are loans that we marked as published
  CopyPlan copies_;
  std::size_t copied_bytes_ = 0;
  link::IssuedRef issued_;
};

}  // namespace tensorbus::bus
