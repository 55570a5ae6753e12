#include "tensorbus/python/codec/fields_reader.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>

#include "tensorbus/python/codec/hooks.hpp"
#include "tensorbus/python/codec/instance.hpp"
#include "tensorbus/python/codec/kept_keys.hpp"
#include "tensorbus/python/numpy/scalars.hpp"

namespace tensorbus::python {
namespace {

using internal::PackCursor;
using internal::PackToken;
using Kind = PackToken::Kind;

constexpr std::int8_t kRecordCode = 3;
// The packer writes at most 60 levels, each of which takes up to three levels of MessagePack.
constexpr int kMaxLevels = 256;
// Limit for the number of items that are allocated in advance: a list can announce many items in
// few bytes, at each level of nesting.
constexpr std::uint64_t kMaxInAdvance = internal::kMaxReserved;

[[noreturn]] void refuse(const std::string& why) {
  throw Error(Code::kProtocol, "sample.fields: " + why);
}

// Counts a level of nesting while the level is read.
class Level {
 public:
  explicit Level(int& depth) : depth_(depth) {
    if (depth_ == kMaxLevels) refuse("nested too deep");
    ++depth_;
  }
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;
  ~Level() { --depth_; }

 private:
  int& depth_;
};

nb::object str_of(std::span<const std::byte> bytes) {
  const auto* const text = reinterpret_cast<const char*>(bytes.data());
  PyObject* const made = PyUnicode_DecodeUTF8(text, static_cast<Py_ssize_t>(bytes.size()), nullptr);
  if (made != nullptr || !PyErr_ExceptionMatches(PyExc_UnicodeDecodeError)) return checked(made);
  PyErr_Clear();
  refuse("a text that is not UTF-8");
}

nb::object key_of(std::span<const std::byte> bytes) {
  if (bytes.size() > kLongestKept) return str_of(bytes);
  KeptKey& place = place_of_key(bytes);
  if (PyObject* const known = place.key_of(bytes)) return nb::borrow(known);
  nb::object made = str_of(bytes);
  if (is_ascii(made.ptr())) place.keep(made);
  return made;
}

// Returns the scalar of a record "numpy.scalar" with a built-in dtype of NumPy; null for any other
// record.
nb::object scalar_in(std::span<const std::byte> payload) {
  PackCursor cursor(payload);
  if (cursor.list() != 3U || cursor.string() != std::string_view("numpy.scalar")) return {};
  const auto code = cursor.string();
  const auto bytes = code ? cursor.bytes() : std::nullopt;
  return bytes && cursor.left() == 0 ? make_numpy_scalar(*code, *bytes) : nb::object();
}

}  // namespace

PackToken FieldsReader::next() {
  const auto token = cursor_.token();
  if (!token) refuse("cut short, or a byte that starts no value");
  return *token;
}

void FieldsReader::check_at_end() const {
  if (cursor_.left() != 0) refuse("bytes after the value");
}

nb::object FieldsReader::read_whole() {
  nb::object value = read();
  check_at_end();
  return value;
}

nb::object FieldsReader::read() {
  const std::span<const std::byte> from = cursor_.rest();
  const PackToken token = next();
  switch (token.kind) {
    case Kind::kNil:
      return nb::none();
    case Kind::kBool:
      return nb::borrow(token.number != 0 ? Py_True : Py_False);
    case Kind::kUnsigned:
      return checked(PyLong_FromUnsignedLongLong(token.number));
    case Kind::kSigned:
      return checked(PyLong_FromLongLong(static_cast<std::int64_t>(token.number)));
    case Kind::kFloat:
      return checked(PyFloat_FromDouble(std::bit_cast<double>(token.number)));
    case Kind::kText:
      return str_of(token.part);
    case Kind::kBytes:
      return nb::bytes(token.part.data(), token.part.size());
    case Kind::kList:
      return read_list(token.number);
    case Kind::kMap:
      return read_map(token.number);
    case Kind::kExtension:
      return read_extension(token, from.first(from.size() - cursor_.left()));
  }
  refuse("a byte that starts no value");
}

nb::object FieldsReader::read_list(std::uint64_t count) {
  const Level level(depth_);
  const auto first = static_cast<Py_ssize_t>(std::min(count, kMaxInAdvance));
  nb::object list = checked(PyList_New(first));
  for (Py_ssize_t i = 0; i < first; ++i) fill_list_item(list.ptr(), i, read().release().ptr());
  for (auto i = static_cast<std::uint64_t>(first); i < count; ++i)
    if (PyList_Append(list.ptr(), read().ptr()) != 0) throw nb::python_error();
  return list;
}

nb::object FieldsReader::read_map(std::uint64_t pairs) {
  const Level level(depth_);
  nb::object dict = checked(PyDict_New());
  for (std::uint64_t i = 0; i < pairs; ++i) {
    PackCursor ahead = cursor_;
    const auto text = ahead.token();
    nb::object key;
    if (text && text->kind == Kind::kText) {
      cursor_ = ahead;
      key = key_of(text->part);
    } else {
      key = read();
    }
    const nb::object value = read();
    if (PyDict_SetItem(dict.ptr(), key.ptr(), value.ptr()) == 0) continue;
    if (PyErr_ExceptionMatches(PyExc_TypeError) == 0) throw nb::python_error();
    PyErr_Clear();
    refuse("a key without a hash");
  }
  return dict;
}

nb::object FieldsReader::read_extension(const PackToken& token, std::span<const std::byte> whole) {
  const Level level(depth_);
  if (token.type == internal::kTensorType) {
    std::uint32_t index = 0;
    if (token.part.size() != sizeof index) refuse("a tensor reference that is not 4 bytes");
    std::memcpy(&index, token.part.data(), sizeof index);
    return source_.tensor(index);
  }
  if (token.type == internal::kTupleType) return read_tuple(token.part);
  if (token.type == kRecordCode) return read_record(token.part);
  return hooks().extension(nb::bytes(whole.data(), whole.size()));
}

nb::object FieldsReader::read_tuple(std::span<const std::byte> payload) {
  FieldsReader reader(payload, source_, depth_);
  const PackToken head = reader.next();
  if (head.kind != Kind::kList) refuse("a tuple that is not a list");
  nb::object tuple;
  if (head.number <= kMaxInAdvance) {
    tuple = checked(PyTuple_New(static_cast<Py_ssize_t>(head.number)));
    for (Py_ssize_t i = 0; i < static_cast<Py_ssize_t>(head.number); ++i)
      fill_tuple_item(tuple.ptr(), i, reader.read().release().ptr());
  } else {
    tuple = checked(PyList_AsTuple(reader.read_list(head.number).ptr()));
  }
  reader.check_at_end();
  return tuple;
}

nb::object FieldsReader::read_record(std::span<const std::byte> payload) {
  nb::object scalar = scalar_in(payload);
  if (scalar) return scalar;
  const nb::object record = FieldsReader(payload, source_, depth_).read_whole();
  return hooks().restore(source_.restorer(), record);
}

void FieldsReader::skip() {
  const Level level(depth_);
  const PackToken token = next();
  const bool is_map = token.kind == Kind::kMap;
  if (!is_map && token.kind != Kind::kList) return;
  for (std::uint64_t i = 0; i < token.number * (is_map ? 2 : 1); ++i) skip();
}

// Reads the fields into `values`. Returns false if they are not a map with names as keys.
bool FieldsReader::read_fields(const MessagePlan& plan, std::vector<nb::object>& values) {
  const auto pairs = cursor_.map();
  if (!pairs) return false;
  std::size_t expected = 0;  // the writer usually has the same order
  for (std::size_t i = 0; i < *pairs; ++i) {
    const auto name = cursor_.string();
    if (!name) return false;
    const std::size_t count = plan.fields.size();
    std::size_t looked = 0;
    while (looked < count && plan.fields[(expected + looked) % count].text() != *name) ++looked;
    if (looked == count) {
      skip();
      continue;
    }
    const std::size_t field = (expected + looked) % count;
    values[field] = read();
    expected = field + 1;
  }
  check_at_end();
  return true;
}

nb::object FieldsReader::read_typed(const MessagePlan& plan, nb::handle library) {
  const PackCursor begin = cursor_;
  std::vector<nb::object> values(plan.fields.size());
  {
    const Level level(depth_);
    if (read_fields(plan, values)) return make_instance(plan, values, library);
  }
  cursor_ = begin;
  return plan.plan.attr("received")(read_whole(), library);
}

namespace {

// Gets the tensors from Python's restorer.
class PythonSource final : public TensorSource {
 public:
  explicit PythonSource(nb::handle restorer) : restorer_(restorer) {}
  nb::object tensor(std::uint64_t index) override { return restorer_.attr("tensor")(index); }
  nb::handle restorer() override { return restorer_; }

 private:
  const nb::handle restorer_;
};

nb::object unpack(const nb::bytes& fields, nb::handle restorer, const MessagePlan* plan) {
  PythonSource source(restorer);
  const std::span bytes(static_cast<const std::byte*>(fields.data()), fields.size());
  FieldsReader reader(bytes, source);
  return plan != nullptr ? reader.read_typed(*plan, restorer.attr("library")) : reader.read_whole();
}

}  // namespace

void bind_fields_reader(nb::module_& module) {
  module.def("unpack", unpack, nb::arg("fields"), nb::arg("restorer"),
             nb::arg("plan").none() = nb::none(),
             nb::sig("def unpack(fields: bytes, restorer: typing.Any, "
                     "plan: MessagePlan | None = None) -> typing.Any"),
             "Returns the message with these fields. `restorer` provides its tensors.");
}

}  // namespace tensorbus::python
