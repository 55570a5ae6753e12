#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "tensorbus/bus/message.hpp"
#include "tensorbus/link/issued_sample.hpp"
#include "tensorbus/link/sample_ring.hpp"
#include "tensorbus/memory/arena.hpp"
#include "tensorbus/tensor/descriptor.hpp"

namespace tensorbus::bus {

// A message whose tensors are in the arena and whose descriptor is written: ready to be pushed to
// any number of links. Until it is published, dropping it undoes everything.
class PreparedSample {
 public:
  // `allocate` gives a block of so many bytes, or throws. Tensors that lie in a loan travel by
  // reference; all others are copied into one block. Throws Error(kInvalidArgument) for a loan
  // that was published before and for a malformed layout.
  PreparedSample(const Message& message, memory::Arena& arena,
                 const std::function<memory::BlockRef(std::size_t)>& allocate,
                 const std::shared_ptr<link::ByteCounter>& in_flight);
  ~PreparedSample();
  PreparedSample(const PreparedSample&) = delete;
  PreparedSample& operator=(const PreparedSample&) = delete;

  const link::Entry& entry() const noexcept { return entry_; }
  const link::IssuedRef& issued() const noexcept { return issued_; }
  std::size_t copied_bytes() const noexcept { return copied_bytes_; }

  // The loans are spent.
  void mark_done() noexcept { loans_.clear(); }

 private:
  memory::BlockRef take_loan(const void* data, const ByteSpan& span, memory::Arena& arena);
  void return_loans() noexcept;

  link::Entry entry_;
  link::IssuedRef issued_;
  std::vector<memory::BlockRef> loans_;  // marked as published by us
  std::size_t copied_bytes_ = 0;
};

}  // namespace tensorbus::bus
