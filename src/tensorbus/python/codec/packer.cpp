#include "tensorbus/python/codec/packer.hpp"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <limits>
#include <string>

#include "tensorbus/python/codec/hooks.hpp"
#include "tensorbus/python/numpy/scalars.hpp"

namespace tensorbus::python {
namespace {

constexpr int kMaxNesting = 60;
constexpr std::int8_t kRecordType = 3;
constexpr std::size_t kUsualBytes = 256;
constexpr std::size_t kMaxExpected = 1024;

[[noreturn]] void raise_changed(const char* container) {
  PyErr_Format(PyExc_RuntimeError, "%s changed size while it was packed", container);
  throw nb::python_error();
}

void check_size(std::size_t bytes) {
  if (bytes > std::numeric_limits<std::uint32_t>::max())
    throw Error(Code::kUnsupported,
                "data: " + std::to_string(bytes) +
                    " bytes; at most 4 GiB are possible: send them as a tensor");
}

// Returns true if MessagePack has a type for this key. Only a dict with these keys becomes a map.
bool is_plain_key(PyObject* key) {
  const PyTypeObject* const type = Py_TYPE(key);
  if (type == &PyUnicode_Type || type == &PyBytes_Type || type == &PyBool_Type ||
      type == &PyFloat_Type || key == Py_None)
    return true;
  if (type != &PyLong_Type) return false;
  int overflow = 0;
  (void)PyLong_AsLongLongAndOverflow(key, &overflow);
  return overflow == 0;
}

bool has_plain_keys(nb::handle dict) {
  Py_ssize_t at = 0;
  for (PyObject* key = nullptr; PyDict_Next(dict.ptr(), &at, &key, nullptr) != 0;)
    if (!is_plain_key(key)) return false;
  return true;
}

}  // namespace

Packer::Packer(nb::object tensors) : native_(nullptr), object_(std::move(tensors)) {
  (void)nb::try_cast(object_, native_);
}

// Python may keep the Outgoing, so it moves into a Python object first.
const nb::object& Packer::python_tensors() {
  if (!object_) {
    object_ = nb::cast(std::move(*native_));
    native_ = nb::inst_ptr<Outgoing>(object_);
  }
  return object_;
}

void Packer::check_depth(nb::handle value, int depth) const {
  if (depth < kMaxNesting) return;
  const nb::object error =
      hooks().cannot_travel(value, "nested deeper than " + std::to_string(kMaxNesting) + " levels");
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
  throw nb::python_error();
}

void Packer::pack(nb::handle value, int depth) {
  PyObject* const object = value.ptr();
  const PyTypeObject* const type = Py_TYPE(object);
  if (type == &PyUnicode_Type) return pack_text(value);
  if (type == &PyLong_Type) return pack_int(value);
  if (type == &PyFloat_Type) return writer_.write_float(float_value(object));
  if (type == &PyBool_Type) return writer_.write_bool(object == Py_True);
  if (object == Py_None) return writer_.write_nil();
  if (type == &PyComplex_Type) return pack_complex(value);
  if (type == &PyBytes_Type) return pack_bytes(value);
  if (type == &PyDict_Type) return pack_dict(value, depth);
  if (type == &PyList_Type) return pack_list(value, depth);
  if (type == &PyTuple_Type) return pack_tuple(value, depth);
  const int index = native_ != nullptr ? native_->add(value) : -1;
  if (index >= 0) return writer_.write(TensorIndex{static_cast<std::uint32_t>(index)});
  if (pack_numpy_scalar(value, writer_) || pack_again(value)) return;
  pack_rare(value, depth);
}

// Packs an item of a container. If the first of many items is a tensor, the others usually are
// tensors, too, so memory for them is reserved. `left`: the number of items from this one on.
void Packer::pack_item(nb::handle item, std::size_t left, int depth) {
  const std::size_t before = native_ != nullptr ? native_->size() : 0;
  pack(item, depth + 1);
  if (native_ != nullptr && before == 0 && native_->size() == 1 && left > 2)
    native_->reserve(std::min(left, kMaxExpected));
}

void Packer::pack_text(nb::handle value) {
  const std::string_view text = utf8_of(value);
  check_size(text.size());
  writer_.write(text);
}

void Packer::pack_bytes(nb::handle value) {
  const auto bytes = nb::borrow<nb::bytes>(value);
  check_size(bytes.size());
  writer_.write(std::span(static_cast<const std::byte*>(bytes.data()), bytes.size()));
}

void Packer::pack_int(nb::handle value) {
  int overflow = 0;
  const long long number = PyLong_AsLongLongAndOverflow(value.ptr(), &overflow);
  if (overflow == 0) return writer_.write_signed(number);
  if (overflow > 0) {
    const unsigned long long large = PyLong_AsUnsignedLongLong(value.ptr());
    if (PyErr_Occurred() == nullptr) return writer_.write_unsigned(large);
    PyErr_Clear();
  }
  const std::size_t begin = writer_.size();
  writer_.write_list_of(2);
  writer_.write(std::string_view("int"));
  pack_text(checked(PyNumber_ToBase(value.ptr(), 16)));
  writer_.wrap(begin, kRecordType);
}

void Packer::pack_complex(nb::handle value) {
  const std::size_t begin = writer_.size();
  writer_.write_list_of(3);
  writer_.write(std::string_view("complex"));
  writer_.write_float(PyComplex_RealAsDouble(value.ptr()));
  writer_.write_float(PyComplex_ImagAsDouble(value.ptr()));
  writer_.wrap(begin, kRecordType);
}

void Packer::pack_dict(nb::handle dict, int depth) {
  check_depth(dict, depth);
  if (!pack_map(dict, depth)) pack_pairs(dict, depth);
}

// Returns false, and packs nothing, if not all keys are plain.
bool Packer::pack_map(nb::handle dict, int depth) {
  const nb::ft_object_guard unchanged(dict);
  if (!has_plain_keys(dict)) return false;
  const auto items = static_cast<std::size_t>(dict_size(dict.ptr()));
  check_size(items);
  writer_.write_map_of(items);
  std::size_t packed = 0;
  Py_ssize_t at = 0;
  for (PyObject *key = nullptr, *item = nullptr; PyDict_Next(dict.ptr(), &at, &key, &item) != 0;
       ++packed) {
    const nb::object name = nb::borrow(key);
    const nb::object value = nb::borrow(item);
    if (packed == items || !is_plain_key(key)) raise_changed("a dict");
    pack(name, depth);
    pack_item(value, items - packed, depth);
  }
  if (packed != items) raise_changed("a dict");
  return true;
}

// Packs a dict with any keys as a record of pairs; each pair is a list.
void Packer::pack_pairs(nb::handle dict, int depth) {
  const nb::object pairs = checked(PyDict_Items(dict.ptr()));
  check_depth(dict, depth + 2);
  const std::size_t begin = writer_.size();
  writer_.write_list_of(static_cast<std::size_t>(list_size(pairs.ptr())) + 1);
  writer_.write(std::string_view("dict"));
  for (const nb::handle pair : nb::borrow<nb::list>(pairs)) {
    writer_.write_list_of(2);
    pack(tuple_item(pair.ptr(), 0), depth + 3);
    pack(tuple_item(pair.ptr(), 1), depth + 3);
  }
  writer_.wrap(begin, kRecordType);
}

void Packer::pack_list(nb::handle list, int depth) {
  check_depth(list, depth);
  const nb::ft_object_guard unchanged(list);
  const Py_ssize_t items = list_size(list.ptr());
  writer_.write_list_of(static_cast<std::size_t>(items));
  for (Py_ssize_t i = 0; i < items; ++i) {
    if (i >= list_size(list.ptr())) raise_changed("a list");
    const nb::object item = nb::borrow(list_item(list.ptr(), i));
    pack_item(item, static_cast<std::size_t>(items - i), depth);
  }
  if (list_size(list.ptr()) != items) raise_changed("a list");
}

void Packer::pack_tuple(nb::handle tuple, int depth) {
  check_depth(tuple, depth);
  const std::size_t begin = writer_.size();
  const Py_ssize_t items = tuple_size(tuple.ptr());
  writer_.write_list_of(static_cast<std::size_t>(items));
  for (Py_ssize_t i = 0; i < items; ++i) pack(tuple_item(tuple.ptr(), i), depth + 1);
  writer_.wrap(begin, internal::kTupleType);
}

bool Packer::pack_again(nb::handle value) {
  const int known = rare_indices_.find(value.ptr());
  if (known >= 0) writer_.append(rare_[static_cast<std::size_t>(known)].second);
  return known >= 0;
}

void Packer::pack_rare(nb::handle value, int depth) {
  const std::size_t begin = writer_.size();
  const nb::object words = hooks().lower(python_tensors(), value);
  if (PyTuple_CheckExact(words.ptr())) {
    check_depth(value, depth);
    pack_record(nb::borrow<nb::tuple>(words), value, depth);
  } else {
    writer_.write(TensorIndex{nb::cast<std::uint32_t>(words)});
  }
  const auto packed = writer_.bytes().subspan(begin);
  rare_indices_.enter(value.ptr(), static_cast<int>(rare_.size()));
  rare_.emplace_back(nb::borrow(value), std::vector(packed.begin(), packed.end()));
}

void Packer::pack_record(const nb::tuple& record, nb::handle value, int depth) {
  const std::size_t begin = writer_.size();
  writer_.write_list_of(record.size());
  try {
    for (const nb::handle part : record) pack(part, depth + 1);
  } catch (nb::python_error& error) {
    hooks().blamed(error.value(), value);
    throw;
  }
  writer_.wrap(begin, kRecordType);
}

std::vector<std::byte> Packer::take_fields() {
  internal::PackCursor cursor(writer_.bytes());
  const bool is_tensor = cursor.tensor() == 0U && cursor.left() == 0;
  return is_tensor ? std::vector<std::byte>() : writer_.take();
}

std::vector<std::byte> Packer::pack_message(nb::handle message) {
  writer_.reserve(kUsualBytes);
  try {
    pack(message, 0);
  } catch (nb::python_error& error) {
    hooks().refused(error.value(), message);
    throw;
  }
  return take_fields();
}

std::vector<std::byte> Packer::pack_value(nb::handle value) {
  pack(value, 0);
  return writer_.take();
}

void Packer::pack_fields(nb::handle message, const MessagePlan& plan) {
  writer_.reserve(kUsualBytes);
  writer_.write_map_of(plan.fields.size());
  for (const FieldPlan& field : plan.fields) {
    const nb::object value = checked(PyObject_GetAttr(message.ptr(), field.name.ptr()));
    writer_.append(field.key);
    pack(field.is_exact(value) ? value : field.lower(value), 1);
  }
}

std::vector<std::byte> Packer::pack_typed(nb::handle message, const MessagePlan& plan) {
  if (reinterpret_cast<PyObject*>(Py_TYPE(message.ptr())) == plan.cls.ptr()) {
    try {
      pack_fields(message, plan);
      return writer_.take();
    } catch (nb::python_error& error) {
      // Python packs the message again below, and reports the error and its place.
      if (!error.matches(PyExc_Exception)) throw;
    }
    writer_ = internal::PackWriter();
    rare_indices_.clear();
    rare_.clear();
    tensors().clear();
  }
  return pack_message(plan.plan.attr("checked")(message));
}

void bind_packer(nb::module_& module) {
  module.def(
      "pack_message",
      [](nb::object outgoing, nb::handle message) {
        const auto fields = Packer(std::move(outgoing)).pack_message(message);
        return nb::bytes(fields.data(), fields.size());
      },
      nb::arg("outgoing"), nb::arg("message").none(),
      nb::sig("def pack_message(outgoing: typing.Any, message: object) -> bytes"),
      "Returns the fields of a message, and adds its tensors to `outgoing`: an Outgoing, or an "
      "object with its methods. The fields are empty if the message is a single tensor.");
  module.def(
      "pack_value",
      [](nb::object outgoing, nb::handle value) {
        const auto packed = Packer(std::move(outgoing)).pack_value(value);
        return nb::bytes(packed.data(), packed.size());
      },
      nb::arg("outgoing"), nb::arg("value").none(),
      nb::sig("def pack_value(outgoing: typing.Any, value: object) -> bytes"),
      "Returns one value of a message as MessagePack, and adds its tensors to `outgoing`.");
}

}  // namespace tensorbus::python
