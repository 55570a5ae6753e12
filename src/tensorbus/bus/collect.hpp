#pragma once

#include <functional>
#include <memory>

#include "tensorbus/bus/exchange.hpp"
#include "tensorbus/bus/options.hpp"
#include "tensorbus/bus/sample.hpp"

namespace tensorbus::bus {

// Who gets what a peer lends: one of the two is called, once.
struct Receiver {
  std::function<void(Sample)> on_sample;
  std::function<void(const Error&)> on_error;
};

// Makes a sample of what `from` has lent, with leases on what it hands on. On the service thread.
// Throws nothing: whatever goes wrong is the receiver's to hear, and the lease goes back.
void collect(Surroundings& surroundings, const std::shared_ptr<Exchange>& from,
             const link::Lent& lent, Access access, Receiver receiver) noexcept;

}  // namespace tensorbus::bus
