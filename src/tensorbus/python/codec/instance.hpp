#pragma once

#include <vector>

#include "tensorbus/python/codec/message_plan.hpp"

namespace tensorbus::python {

// Makes an instance of the plan's class. `values` are those that came, by the place of their field;
// null for a field that did not come. Throws what the plan's received() raises if one is missing,
// or is of another type.
nb::object make_instance(const MessagePlan& plan, std::vector<nb::object>& values,
                         nb::handle library);

}  // namespace tensorbus::python
