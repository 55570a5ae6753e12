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
  std::vector<std::byte> key;  // the name, packed
  nb::object exact;            // the set of classes whose values are as they should be; null: all
  nb::object lower;            // makes what is packed of any other value
  nb::object restore;          // the opposite
  bool required = false;
  bool in_init = false;

  bool is_exact(nb::handle value) const;
  std::string_view text() const noexcept;
};

// What is known of a message class.
class MessagePlan {
 public:
  MessagePlan(nb::object plan, nb::object cls, const nb::list& fields);

  nb::object plan;  // tensorbus.messages._plan.Plan, which does all that is rare
  nb::object cls;
  std::vector<FieldPlan> fields;
  nb::object names;  // a tuple of those that __init__ takes

  // Calls visit(object) for each nb::object that this holds.
  template <typename Visit>
  void for_each_object(Visit visit) {
    visit(plan), visit(cls), visit(names);
    for (FieldPlan& field : fields)
      visit(field.name), visit(field.exact), visit(field.lower), visit(field.restore);
  }
};

}  // namespace tensorbus::python
