#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tensorbus/bus/session/acquired_leases.hpp"
#include "tensorbus/bus/session/peer_session.hpp"
#include "tensorbus/link/lease/lease.hpp"
#include "tensorbus/link/lease/published_sample.hpp"
#include "tensorbus/link/ring/message_lease_source.hpp"
#include "tensorbus/link/ring/sample_ring.hpp"
#include "tensorbus/tensor/descriptor.hpp"

namespace tensorbus::bus {

// A sample that a peer has lent by message and that is not read yet: its leases, and its references
// to memory. It maps no device memory, so that a process can hold and pass on a sample that it
// cannot use. Read in one thread, except by SampleData::read_held().
struct LentSample {
  // Takes over the lease; if the constructor throws, the lease is returned. Throws Error(kProtocol)
  // for a malformed descriptor, or if a segment of the sender's own tensors never came;
  // Error(kOutOfMemory).
  LentSample(const PeerSession& from, const link::Lent& lent, memory::Grant grant,
             std::shared_ptr<link::LeaseIndex> lent_memory);
  // A sample in host memory. Its descriptor came through a ring, with the lease of this token (0:
  // none), or its tensors lie in `own`, memory of this participant. Throws Error(kProtocol) as
  // above, and for other memory; Error(kOutOfMemory). If the constructor throws, the lease is not
  // returned.
  LentSample(std::shared_ptr<link::MessageLeaseSource> from, std::span<const std::byte> descriptor,
             std::uint64_t token = 0, link::PublishedRef own = nullptr);
  LentSample(const LentSample&) = delete;
  LentSample& operator=(const LentSample&) = delete;

  // Returns the sender's lease. Called if all tensors belong to other owners, which have lent them
  // directly.
  void let_go_of_sender(memory::Grant grant, std::shared_ptr<link::LeaseIndex> lent_memory);
  // If the sample is small, allows the sender's lease to be returned a little later.
  void return_by(const std::shared_ptr<link::DelayedSender>& delayed) const noexcept;
  // Returns the bytes of its fields and tensors.
  std::uint64_t payload_bytes() const noexcept;
  // Returns true if the sender itself owns a part of it.
  bool is_of_sender() const noexcept;
  // Returns true if all of it is in host memory that is, or can be, mapped here. Throws
  // Error(kOutOfMemory) if there is no room for the mapping.
  bool is_mapped() const;

  std::shared_ptr<link::MessageLeaseSource> lender;
  std::shared_ptr<link::Lease> lease;  // the sender's; null once it is not needed
  link::Entry entry;                   // may be too short for an inline descriptor: see `bytes`
  std::vector<std::byte> bytes;        // a copy of the descriptor
  tensor::Descriptor descriptor;       // its fields lie in `bytes`
  AcquiredLeases acquired;
  link::PublishedRef own;  // null: came from a peer

 private:
  void copy_descriptor(const link::Lent& lent);
  void require_own_tensors() const;
};
using LentRef = std::shared_ptr<LentSample>;

}  // namespace tensorbus::bus
