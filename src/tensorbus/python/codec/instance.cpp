#include "tensorbus/python/codec/instance.hpp"

#include <cstddef>

namespace tensorbus::python {
namespace {

// Makes the instance in Python, which raises an error if the received fields are invalid.
nb::object make_by_python(const MessagePlan& plan, const std::vector<nb::object>& values,
                          nb::handle library) {
  nb::dict came;
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i]) came[plan.fields[i].name] = values[i];
  return plan.plan.attr("received")(came, library);
}

// Returns false if a required field is missing.
bool is_complete(const MessagePlan& plan, const std::vector<nb::object>& values) {
  for (std::size_t i = 0; i < values.size(); ++i)
    if (!values[i] && plan.fields[i].required) return false;
  return true;
}

// Converts the values whose class is not the class of their field. If there are any, stores the
// original values in `came`. Returns false if a value cannot be converted.
bool restore(const MessagePlan& plan, std::vector<nb::object>& values,
             std::vector<nb::object>& came, nb::handle library) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const FieldPlan& field = plan.fields[i];
    if (!values[i] || field.is_exact(values[i])) continue;
    if (came.empty()) came = values;
    try {
      values[i] = field.restore(values[i], library);
    } catch (nb::python_error& error) {
      if (!error.matches(PyExc_Exception)) throw;
      return false;
    }
  }
  return true;
}

nb::tuple names_of_some(const MessagePlan& plan, const std::vector<nb::object>& values) {
  nb::list names;
  for (std::size_t i = 0; i < values.size(); ++i)
    if (plan.fields[i].in_init && values[i]) names.append(plan.fields[i].name);
  return nb::tuple(names);
}

// Calls the class with the received fields that __init__ takes.
nb::object call_class(const MessagePlan& plan, const std::vector<nb::object>& values) {
  std::vector<PyObject*> arguments;
  arguments.reserve(values.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    if (plan.fields[i].in_init && values[i]) arguments.push_back(values[i].ptr());
  const bool is_all = arguments.size() == static_cast<std::size_t>(tuple_size(plan.names.ptr()));
  const nb::object names = is_all ? plan.names : names_of_some(plan, values);
  return checked(PyObject_Vectorcall(plan.cls.ptr(), arguments.data(), 0, names.ptr()));
}

}  // namespace

nb::object make_instance(const MessagePlan& plan, std::vector<nb::object>& values,
                         nb::handle library) {
  std::vector<nb::object> came;
  if (!is_complete(plan, values) || !restore(plan, values, came, library))
    return make_by_python(plan, came.empty() ? values : came, library);
  nb::object made;
  try {
    made = call_class(plan, values);
  } catch (nb::python_error& error) {
    plan.plan.attr("refused")(error.value());
    throw;
  }
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i] && !plan.fields[i].in_init &&
        PyObject_GenericSetAttr(made.ptr(), plan.fields[i].name.ptr(), values[i].ptr()) != 0)
      throw nb::python_error();
  return made;
}

}  // namespace tensorbus::python
