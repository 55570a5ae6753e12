#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "tensorbus/python/bindings.hpp"

namespace tensorbus::python {

// A field of a message class: see tensorbus/messages/_plan.py.
struct FieldPlan {
  nb::object name;
  std::vector<std::byte> key;  // the packed name
  nb::object exact;            // the set of classes that need no conversion; null: all
  nb::object lower;            // converts a value of any other class before packing
  nb::object restore;          // the opposite conversion
  bool required = false;
  bool in_init = false;

  bool is_exact(nb::handle value) const;
  std::string_view text() const noexcept;
};

// The description of a message class.
class MessagePlan {
 public:
  MessagePlan(nb::object plan, nb::object cls, const nb::list& fields);

  nb::object plan;  // the tensorbus.messages._plan.Plan, which handles rare cases
  nb::object cls;
  std::vector<FieldPlan> fields;
  nb::object names;  // a tuple of the names that __init__ takes

  // Calls visit(object) for each nb::object in this plan.
  template <typename Visit>
  void for_each_object(Visit visit) {
    visit(plan), visit(cls), visit(names);
    for (FieldPlan& field : fields)
      visit(field.name), visit(field.exact), visit(field.lower), visit(field.restore);
  }
};

}  // namespace tensorbus::python
