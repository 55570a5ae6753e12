#include "tensorbus/python/codec/message_plan.hpp"

#include <string>
#include <tensorbus/values/value.hpp>

namespace tensorbus::python {
namespace {

FieldPlan field_of(const nb::tuple& description) {
  FieldPlan field{.name = nb::borrow(description[0]),
                  .key = {},
                  .exact = nb::borrow(description[1]),
                  .lower = nb::borrow(description[2]),
                  .restore = nb::borrow(description[3]),
                  .required = nb::cast<bool>(description[4]),
                  .in_init = nb::cast<bool>(description[5])};
  internal::PackWriter writer;
  writer.write(utf8_of(field.name));
  field.key = writer.take();
  if (field.exact.is_none()) field.exact.reset();
  return field;
}

// For the garbage collector: the class and its plan refer to each other, so only the collector
// frees them.
int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self)) return 0;
  int found = 0;
  nb::inst_ptr<MessagePlan>(self)->for_each_object([&](const nb::object& object) {
    if (found == 0 && object) found = visit(object.ptr(), arg);
  });
  return found;
}

int clear(PyObject* self) {
  nb::inst_ptr<MessagePlan>(self)->for_each_object([](nb::object& object) { object.reset(); });
  return 0;
}

PyType_Slot slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(traverse)},
                       {Py_tp_clear, reinterpret_cast<void*>(clear)},
                       {0, nullptr}};

}  // namespace

bool FieldPlan::is_exact(nb::handle value) const {
  if (!exact) return true;
  const int found = PySet_Contains(exact.ptr(), reinterpret_cast<PyObject*>(Py_TYPE(value.ptr())));
  if (found < 0) throw nb::python_error();
  return found != 0;
}

std::string_view FieldPlan::text() const noexcept {
  internal::PackCursor cursor(key);
  return cursor.string().value_or(std::string_view());
}

MessagePlan::MessagePlan(nb::object python_plan, nb::object of, const nb::list& descriptions)
    : plan(std::move(python_plan)), cls(std::move(of)) {
  nb::list taken;
  for (const nb::handle one : descriptions) {
    fields.push_back(field_of(nb::cast<nb::tuple>(one)));
    if (fields.back().in_init) taken.append(fields.back().name);
  }
  names = nb::tuple(taken);
}

void bind_message_plan(nb::module_& module) {
  nb::class_<MessagePlan>(module, "MessagePlan", nb::type_slots(slots),
                          "The description of a message class.")
      .def(nb::init<nb::object, nb::object, const nb::list&>(), nb::arg("plan"), nb::arg("cls"),
           nb::arg("fields"),
           nb::sig("def __init__(self, plan: object, cls: type, "
                   "fields: list[tuple[str, set[type] | None, typing.Any, typing.Any, bool, "
                   "bool]]) -> None"),
           "`fields`: for each field its name, the classes that need no conversion (None: all), "
           "the functions that lower and restore a value of any other class, whether it is "
           "required, and whether __init__ takes it.");
}

}  // namespace tensorbus::python
