#include "tensorbus/python/codec/plain_items.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace tensorbus::python {
namespace {

constexpr int kMaxPlainDepth = 4;
constexpr Py_ssize_t kMaxPlainValues = 64;  // of a container

// The MessagePack of a plain item: an extension of type 3 with ["pickle", binary, []]. The length
// of the extension and the length of the binary both have 16 bits, or both have 32 bits.
constexpr std::string_view kPlainRecord = "\x03\x93\xa6pickle";
constexpr std::size_t kPlainBegin = 3 + kPlainRecord.size() + 3;  // bytes before a short pickle
constexpr std::size_t kShortAround =
    kPlainRecord.size() - 1 + 3 + 1;  // of the extension, without its type
constexpr std::size_t kMaxShort = 0xFFFF - kShortAround;
constexpr std::size_t kLongAround = kShortAround + 2;
constexpr std::byte kNoTensors{0x90};

// Functions of the module pickle. The module is imported on first use, because its import takes
// longer than the import of this package. Never freed.
struct Pickle {
  nb::object dumps;
  nb::object loads;
  nb::object protocol;
};
// Release when written pairs with acquire when read: a reader sees a complete Pickle.
std::atomic<const Pickle*> known_pickle{nullptr};

const Pickle& pickle() {
  if (const Pickle* const known = known_pickle.load(std::memory_order_acquire)) return *known;
  const nb::module_ found = nb::module_::import_("pickle");
  const auto* const made =
      new Pickle{found.attr("dumps"), found.attr("loads"), found.attr("HIGHEST_PROTOCOL")};
  known_pickle.store(made, std::memory_order_release);  // if two threads do this, both are valid
  return *made;
}

bool is_scalar(PyObject* item) {
  return item == Py_None || PyLong_CheckExact(item) || PyUnicode_CheckExact(item) ||
         PyFloat_CheckExact(item) || PyBool_Check(item) || PyBytes_CheckExact(item);
}

bool is_plain_at(PyObject* item, int depth);

bool is_plain_sequence(PyObject* items, int depth) {
  const nb::ft_object_guard unchanged(items);
  const Py_ssize_t count = sequence_size(items);
  if (count > kMaxPlainValues) return false;
  for (Py_ssize_t i = 0; i < count && i < sequence_size(items); ++i)
    if (!is_plain_at(sequence_item(items, i), depth)) return false;
  return true;
}

bool is_plain_dict(PyObject* items, int depth) {
  const nb::ft_object_guard unchanged(items);
  if (dict_size(items) > kMaxPlainValues) return false;
  Py_ssize_t at = 0;
  PyObject* key = nullptr;
  PyObject* value = nullptr;
  while (PyDict_Next(items, &at, &key, &value) != 0)
    if (!is_scalar(key) || !is_plain_at(value, depth)) return false;
  return true;
}

bool is_plain_at(PyObject* item, int depth) {
  if (is_scalar(item)) return true;
  if (depth == kMaxPlainDepth) return false;
  // Without a GIL, another thread may change the container while this thread waits for the item's
  // lock.
  const nb::object held = nb::borrow(item);
  if (PyTuple_CheckExact(item) || PyList_CheckExact(item))
    return is_plain_sequence(item, depth + 1);
  return PyDict_CheckExact(item) && is_plain_dict(item, depth + 1);
}

nb::object call(PyObject* function, PyObject* first, PyObject* second = nullptr) {
  PyObject* arguments[] = {first, second};
  return checked(PyObject_Vectorcall(function, arguments, second == nullptr ? 1 : 2, nullptr));
}

void append(std::string_view text, std::vector<std::byte>& to) {
  const auto bytes = std::as_bytes(std::span(text));
  to.insert(to.end(), bytes.begin(), bytes.end());
}

// Appends a marker and a big-endian length.
void append_length(unsigned char marker, std::size_t length, int bytes,
                   std::vector<std::byte>& to) {
  to.push_back(std::byte{marker});
  while (bytes-- > 0) to.push_back(static_cast<std::byte>(length >> (8 * bytes)));
}

std::size_t length_at(const std::byte* at) {
  return std::to_integer<std::size_t>(at[0]) << 8 | std::to_integer<std::size_t>(at[1]);
}

}  // namespace

bool is_plain(nb::handle item) { return is_plain_at(item.ptr(), 0); }

std::size_t append_plain(nb::handle item, std::vector<std::byte>& to) {
  const auto pickled =
      nb::borrow<nb::bytes>(call(pickle().dumps.ptr(), item.ptr(), pickle().protocol.ptr()));
  const std::size_t before = to.size();
  const std::size_t count = pickled.size();
  const bool is_short = count <= kMaxShort;
  if (is_short) {
    append_length(0xc8, count + kShortAround, 2, to);
    append(kPlainRecord, to);
    append_length(0xc5, count, 2, to);
  } else {
    append_length(0xc9, count + kLongAround, 4, to);
    append(kPlainRecord, to);
    append_length(0xc6, count, 4, to);
  }
  append({pickled.c_str(), count}, to);
  to.push_back(kNoTensors);
  return to.size() - before;
}

std::optional<std::span<const std::byte>> plain_pickle(std::span<const std::byte> fields) {
  if (fields.size() < kPlainBegin + 1 || fields[0] != std::byte{0xc8}) return std::nullopt;
  const std::size_t count = fields.size() - kPlainBegin - 1;
  if (std::memcmp(&fields[3], kPlainRecord.data(), kPlainRecord.size()) != 0 ||
      length_at(&fields[1]) != count + kShortAround || fields[kPlainBegin - 3] != std::byte{0xc5} ||
      length_at(&fields[kPlainBegin - 2]) != count || fields.back() != kNoTensors)
    return std::nullopt;
  const auto pickled = fields.subspan(kPlainBegin, count);
  const std::string_view text(reinterpret_cast<const char*>(pickled.data()), count);
  if (text.find("torch") != std::string_view::npos) return std::nullopt;
  return pickled;
}

nb::object load_plain(std::span<const std::byte> fields) {
  const auto pickled = plain_pickle(fields);
  if (!pickled) return {};
  const nb::bytes bytes(pickled->data(), pickled->size());
  return call(pickle().loads.ptr(), bytes.ptr());
}

void bind_plain_items(nb::module_& module) {
  module.def(
      "is_plain", [](nb::handle item) { return is_plain(item); }, nb::arg("item").none(),
      nb::sig("def is_plain(item: object) -> bool"),
      "Returns True for a plain value, which cannot contain a tensor.");
  module.def(
      "plain_fields",
      [](nb::handle item) -> std::optional<nb::bytes> {
        if (!is_plain(item)) return std::nullopt;
        std::vector<std::byte> fields;
        append_plain(item, fields);
        return nb::bytes(fields.data(), fields.size());
      },
      nb::arg("item").none(), nb::sig("def plain_fields(item: object) -> bytes | None"),
      "Returns the fields of the message of a plain value; None for any other value.");
  module.def(
      "plain_pickle",
      [](const nb::bytes& fields) -> std::optional<nb::bytes> {
        const auto found =
            plain_pickle(std::span(static_cast<const std::byte*>(fields.data()), fields.size()));
        if (!found) return std::nullopt;
        return nb::bytes(found->data(), found->size());
      },
      nb::arg("fields"), nb::sig("def plain_pickle(fields: bytes) -> bytes | None"),
      "Returns the pickle in these fields; None for other fields, and if the pickle refers to "
      "PyTorch.");
}

}  // namespace tensorbus::python
