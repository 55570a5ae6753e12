#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "tensorbus/bus/ready_sample.hpp"
#include "tensorbus/link/issued_sample.hpp"
#include "tensorbus/memory/arena.hpp"
#include "tensorbus/tensor/layout.hpp"

namespace tensorbus::bus {

// The message that most are: one tensor in a block of host memory, and nothing beside it.
// PreparedSample makes the same of it, with books for everything else that a message can be. Until
// it is published, dropping it undoes everything.
class LoanedSample {
 public:
  LoanedSample() = default;
  ~LoanedSample() { return_loan(); }
  LoanedSample(const LoanedSample&) = delete;
  LoanedSample& operator=(const LoanedSample&) = delete;

  // The tensor whose first element is at `data`, in a block of this arena. `span`: of its layout.
  // False: it is not that simple, or cannot be published; PreparedSample says why.
  bool take(const Layout& layout, const ByteSpan& span, const std::byte* data,
            memory::BlockRef block, const memory::Arena& arena, memory::Grant most_granted,
            const std::shared_ptr<link::ByteCounter>& in_flight, std::uint64_t fingerprint = 0);

  // The tensor was copied into its block to be published.
  void mark_copied(std::size_t bytes) noexcept { ready_.copied_bytes = bytes; }
  const ReadySample& ready() const noexcept { return ready_; }
  // The loan is spent.
  void mark_done() noexcept { marked_ = nullptr; }

 private:
  void return_loan() noexcept;

  ReadySample ready_;
  memory::Block* marked_ = nullptr;  // as published; `ready_` keeps it
};

}  // namespace tensorbus::bus
