#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "tensorbus/bus/publish/outgoing_sample.hpp"
#include "tensorbus/link/lease/published_sample.hpp"
#include "tensorbus/memory/host/arena.hpp"
#include "tensorbus/tensor/layout.hpp"

namespace tensorbus::bus {

// The message that most are: one tensor in a block of host memory, and nothing beside it.
// SampleBuilder makes the same of it, with records of everything else that a message can be. Until
// it is published, dropping it undoes everything.
class LoanedSample {
 public:
  // `loan`: where the block comes from, and goes back to unless it is published; null if nobody
  // wants it back.
  explicit LoanedSample(link::PublishedRef* loan = nullptr) : loan_(loan) {}
  ~LoanedSample() { return_loan(); }
  LoanedSample(const LoanedSample&) = delete;
  LoanedSample& operator=(const LoanedSample&) = delete;

  // The tensor whose first element is at `data`, in a block of this arena, which is all of
  // `issued`. `span`: of its layout. False, and that is still the caller's: it is not that simple,
  // or cannot be published; SampleBuilder says why.
  bool take(const Layout& layout, const ByteSpan& span, const std::byte* data,
            link::PublishedRef& issued, const memory::Arena& arena, memory::PoolId pool,
            std::uint64_t fingerprint = 0);

  // The tensor was copied into its block to be published.
  void mark_copied(std::size_t bytes) noexcept { ready_.copied_bytes = bytes; }
  OutgoingSample& ready() noexcept { return ready_; }
  // The loan is spent.
  void mark_done() noexcept { ready_.issued.reset(); }

 private:
  void return_loan() noexcept;

  OutgoingSample ready_;
  link::PublishedRef* const loan_;
};

}  // namespace tensorbus::bus
