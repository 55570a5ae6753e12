#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "tensorbus/bus/session/acquired_leases.hpp"
#include "tensorbus/bus/session/peer_session.hpp"
#include "tensorbus/link/lease/lease.hpp"
#include "tensorbus/link/ring/sample_ring.hpp"
#include "tensorbus/tensor/descriptor.hpp"

namespace tensorbus::bus {

// What a peer has lent by message, and nobody has read yet: the leases that keep it, and the names
// of what it lies in. Nothing of a device is mapped for it, so that a process can hold, and lend
// onwards, what it could not use.
struct LentSample {
  // Takes the lease over: it goes back if this throws. Throws Error(kProtocol) for a descriptor
  // that makes no sense, and for one whose own tensors lie where nothing came; Error(kOutOfMemory).
  LentSample(const PeerSession& from, const link::Lent& lent, memory::Grant grant,
             std::shared_ptr<link::LeaseIndex> lent_memory);
  LentSample(const LentSample&) = delete;
  LentSample& operator=(const LentSample&) = delete;

  // All of it belongs to others, who have lent it to us: the sender gets its lease back.
  void let_go_of_sender(memory::Grant grant, std::shared_ptr<link::LeaseIndex> lent_memory);
  // Does the sender itself own some of it?
  bool is_of_sender() const noexcept;

  std::shared_ptr<link::LeaseSource> lender;
  std::shared_ptr<link::Lease> lease;  // the sender's; null when it is not needed any more
  link::Entry entry;
  std::vector<std::byte> bytes;  // a copy of the descriptor
  Descriptor descriptor;         // its fields lie in `bytes`
  AcquiredLeases claimed;

 private:
  void copy_descriptor();
  void require_own_tensors() const;
};
using LentRef = std::shared_ptr<LentSample>;

}  // namespace tensorbus::bus
