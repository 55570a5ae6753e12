#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tensorbus/bus/session/acquired_leases.hpp"
#include "tensorbus/bus/session/peer_session.hpp"
#include "tensorbus/link/lease/lease.hpp"
#include "tensorbus/link/ring/sample_ring.hpp"
#include "tensorbus/tensor/descriptor.hpp"

namespace tensorbus::bus {

// A sample that a peer lent by message and that is not read yet: the leases that keep it, and its
// names for memory. It maps no device memory, so that a process can hold and hand on a sample that
// it could not use. Made on the event loop; read in one thread.
struct LentSample {
  // Takes the lease over; it goes back if this throws. Throws Error(kProtocol) for a malformed
  // descriptor, or if a segment of the sender's own tensors never came; Error(kOutOfMemory).
  LentSample(const PeerSession& from, const link::Lent& lent, memory::Grant grant,
             std::shared_ptr<link::LeaseIndex> lent_memory);
  // A sample that is all in its descriptor. Throws Error(kProtocol) if that is malformed, or names
  // tensors.
  LentSample(std::shared_ptr<link::LeaseSource> from, std::span<const std::byte> descriptor);
  LentSample(const LentSample&) = delete;
  LentSample& operator=(const LentSample&) = delete;

  // Returns the sender's lease: all tensors belong to other owners, which have lent them to us.
  void let_go_of_sender(memory::Grant grant, std::shared_ptr<link::LeaseIndex> lent_memory);
  // Returns how many bytes its fields and tensors have.
  std::uint64_t payload_bytes() const noexcept;
  // Returns true if the sender itself owns a part of it.
  bool is_of_sender() const noexcept;

  std::shared_ptr<link::LeaseSource> lender;
  std::shared_ptr<link::Lease> lease;  // the sender's; null when it is not needed any more
  link::Entry entry;             // an inline descriptor may be longer than its bytes: see `bytes`
  std::vector<std::byte> bytes;  // a copy of the descriptor
  Descriptor descriptor;         // its fields lie in `bytes`
  AcquiredLeases claimed;

 private:
  void copy_descriptor(const link::Lent& lent);
  void require_own_tensors() const;
};
using LentRef = std::shared_ptr<LentSample>;

}  // namespace tensorbus::bus
