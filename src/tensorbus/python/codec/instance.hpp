#pragma once

#include <vector>

#include "tensorbus/python/codec/message_plan.hpp"

namespace tensorbus::python {

// Makes an instance of the plan's class. `values` has the received value of each field of the plan;
// null for a missing one. Throws what the plan's received() raises if a required value is missing,
// or has the wrong type.
nb::object make_instance(const MessagePlan& plan, std::vector<nb::object>& values,
                         nb::handle library);

}  // namespace tensorbus::python
