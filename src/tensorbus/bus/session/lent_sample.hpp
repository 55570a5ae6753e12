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

// A sample that a peer lent by message and that is not read yet: the leases that keep it, and its
// names for memory. It maps no device memory, so that a process can hold and hand on a sample that
// it could not use. Read in one thread, but by SampleData::read_held().
struct LentSample {
  // Takes the lease over; it goes back if this throws. Throws Error(kProtocol) for a malformed
  // descriptor, or if a segment of the sender's own tensors never came; Error(kOutOfMemory).
  LentSample(const PeerSession& from, const link::Lent& lent, memory::Grant grant,
             std::shared_ptr<link::LeaseIndex> lent_memory);
  // A sample in host memory whose descriptor came through a ring, with the lease of this token (0:
  // none); or it lies in `own` memory of this participant. Throws Error(kProtocol) as above, and
  // for other memory; Error(kOutOfMemory). If it throws, the lease does not go back.
  LentSample(std::shared_ptr<link::MessageLeaseSource> from, std::span<const std::byte> descriptor,
             std::uint64_t token = 0, link::PublishedRef own = nullptr);
  LentSample(const LentSample&) = delete;
  LentSample& operator=(const LentSample&) = delete;

  // Returns the sender's lease: all tensors belong to other owners, which have lent them to us.
  void let_go_of_sender(memory::Grant grant, std::shared_ptr<link::LeaseIndex> lent_memory);
  // Lets the sender's lease go back a little later, if the sample is small.
  void return_by(const std::shared_ptr<link::DelayedSender>& delayed) const noexcept;
  // Returns how many bytes its fields and tensors have.
  std::uint64_t payload_bytes() const noexcept;
  // Returns true if the sender itself owns a part of it.
  bool is_of_sender() const noexcept;
  // Returns true if all of it is in host memory that is mapped here, or can be. Throws
  // Error(kOutOfMemory) if there is no room to map it.
  bool is_mapped() const;

  std::shared_ptr<link::MessageLeaseSource> lender;
  std::shared_ptr<link::Lease> lease;  // the sender's; null when it is not needed any more
  link::Entry entry;             // an inline descriptor may be longer than its bytes: see `bytes`
  std::vector<std::byte> bytes;  // a copy of the descriptor
  Descriptor descriptor;         // its fields lie in `bytes`
  AcquiredLeases claimed;
  link::PublishedRef own;  // null: it came from elsewhere

 private:
  void copy_descriptor(const link::Lent& lent);
  void require_own_tensors() const;
};
using LentRef = std::shared_ptr<LentSample>;

}  // namespace tensorbus::bus
