#pragma once

#include <cstddef>
#include <memory>
#include <tensorbus/values/device.hpp>
#include <vector>

#include "tensorbus/link/lease/lease.hpp"
#include "tensorbus/link/wire/lease_messages.hpp"
#include "tensorbus/tensor/descriptor.hpp"

namespace tensorbus::bus {

// A tensor that was copied to host memory from a device that this process cannot use.
struct HostCopiedTensor {
  std::size_t tensor = 0;
  std::size_t lender = 0;  // in AcquiredLeases::lenders
  memory::SegmentId segment = 0;
  std::uint64_t offset = 0;  // of the first element
  std::uint64_t generation = 0;
  Device from{};                         // in its owner's numbering
  std::shared_ptr<link::Lease> lease{};  // lease of the copy, which may contain other tensors, too
};

// The leases of a sample that were requested after its arrival.
struct AcquiredLeases {
  // In the order of Descriptor::owners; then the lenders of staged tensors.
  std::vector<std::shared_ptr<link::LeaseSource>> lenders;
  std::vector<std::shared_ptr<link::Lease>> leases;
  std::vector<HostCopiedTensor> staged;

  // Makes the descriptor refer to the copies.
  void point_at_copies(tensor::Descriptor& descriptor) const;
};

}  // namespace tensorbus::bus
