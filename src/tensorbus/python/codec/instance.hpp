#pragma once

#include <vector>

#include "tensorbus/python/codec/message_plan.hpp"

namespace tensorbus::python {

// Makes an instance of the plan's class. `values` has one value per field of the plan: the received
// value, or null if there is none. Throws what the plan's received() raises if a required value is
// missing, or has the wrong type.
nb::object make_instance(const MessagePlan& plan, std::vector<nb::object>& values,
                         nb::handle library);

}  // namespace tensorbus::python
