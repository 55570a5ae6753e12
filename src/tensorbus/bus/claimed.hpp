#pragma once

#include <memory>
#include <vector>

#include "tensorbus/link/lease.hpp"

namespace tensorbus::bus {

// What a sample holds of owners other than its sender.
struct Claimed {
  std::vector<std::shared_ptr<link::Lender>> lenders;  // by Descriptor::owners
  std::vector<std::shared_ptr<link::Lease>> leases;
};

}  // namespace tensorbus::bus
