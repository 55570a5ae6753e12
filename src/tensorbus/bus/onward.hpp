#pragma once

#include "tensorbus/bus/prepared_sample.hpp"
#include "tensorbus/bus/sample.hpp"
#include "tensorbus/bus/surroundings.hpp"

namespace tensorbus::bus {

// What was received, to be lent to somebody else under the names of those who own it.
PreparedSample onward(Surroundings& surroundings, const Sample& sample, memory::Grant grant);

}  // namespace tensorbus::bus
