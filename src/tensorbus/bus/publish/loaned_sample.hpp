#pragma once

#include <cstddef>
#include <cstdint>

#include "tensorbus/bus/publish/outgoing_sample.hpp"
#include "tensorbus/link/lease/published_sample.hpp"
#include "tensorbus/memory/host/arena.hpp"
#include "tensorbus/tensor/layout.hpp"

namespace tensorbus::bus {

// A message of exactly one tensor in a block of host memory: the common case. SampleBuilder makes
// the same sample, and every other kind. If this object is destroyed before the sample is
// published, its changes are undone. Used by one thread.
class LoanedSample {
 public:
  // `loan` gets the block back unless it is published; null if the caller does not need it.
  explicit LoanedSample(link::PublishedRef* loan = nullptr) : loan_(loan) {}
  ~LoanedSample() { return_loan(); }
  LoanedSample(const LoanedSample&) = delete;
  LoanedSample& operator=(const LoanedSample&) = delete;

  // Takes the tensor whose first element is at `data`, in the only block of `issued`. `span` is the
  // span of `layout`. Returns false, and leaves `issued` with the caller, if the message is of
  // another kind or cannot be published. The caller then uses SampleBuilder, which reports the
  // reason.
  bool take(const Layout& layout, const ByteSpan& span, const std::byte* data,
            link::PublishedRef& issued, const memory::Arena& arena, memory::PoolId pool,
            std::uint64_t fingerprint = 0);

  // Records that the tensor was copied into its block.
  void mark_copied(std::size_t bytes) noexcept { ready_.copied_bytes = bytes; }
  OutgoingSample& ready() noexcept { return ready_; }
  // Called when the sample was published: its block does not return to the loan.
  void mark_done() noexcept { ready_.issued.reset(); }

 private:
  void return_loan() noexcept;

  OutgoingSample ready_;
  link::PublishedRef* const loan_;
};

}  // namespace tensorbus::bus
