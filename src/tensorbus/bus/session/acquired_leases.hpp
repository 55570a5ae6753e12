#pragma once

#include <cstddef>
#include <memory>
#include <tensorbus/device.hpp>
#include <vector>

#include "tensorbus/link/lease/lease.hpp"
#include "tensorbus/link/wire/lease_messages.hpp"
#include "tensorbus/tensor/descriptor.hpp"

namespace tensorbus::bus {

// A tensor whose bytes were copied out of a device that this process cannot use.
struct HostCopiedTensor {
  std::size_t tensor = 0;
  std::size_t lender = 0;  // in AcquiredLeases::lenders
  memory::SegmentId segment = 0;
  std::uint64_t offset = 0;  // of the first element
  std::uint64_t generation = 0;
  Device from{};                         // by its owner's ordinals
  std::shared_ptr<link::Lease> lease{};  // of the copy, which others may lie in, too
};

// What a sample holds by leases that were asked for after it came.
struct AcquiredLeases {
  // By Descriptor::owners, as far as there are any; then those of staged tensors.
  std::vector<std::shared_ptr<link::LeaseSource>> lenders;
  std::vector<std::shared_ptr<link::Lease>> leases;
  std::vector<HostCopiedTensor> staged;

  // Has the descriptor name the copies.
  void point_at_copies(Descriptor& descriptor) const;
};

}  // namespace tensorbus::bus
