#include "tensorbus/python/named_tensors.hpp"

#include <limits>
#include <tensorbus/value.hpp>
#include <utility>

namespace tensorbus::python {
namespace {

constexpr std::size_t kMost = std::numeric_limits<std::uint32_t>::max();

// Returns nothing for a string without a UTF-8 form: one with a lone surrogate.
std::optional<std::string_view> text_of(nb::handle name) {
  Py_ssize_t size = 0;
  const char* const text = PyUnicode_AsUTF8AndSize(name.ptr(), &size);
  if (text == nullptr) {
    PyErr_Clear();
    return std::nullopt;
  }
  return std::string_view(text, static_cast<std::size_t>(size));
}

}  // namespace

std::optional<std::vector<std::byte>> pack_named(nb::dict dict, Outgoing& tensors) {
  const std::size_t items = dict.size();
  if (items > kMost) return std::nullopt;
  constexpr std::size_t kGuessed = 32;  // bytes of an item
  internal::PackWriter packer;
  packer.reserve(5 + items * kGuessed);
  packer.write_map_of(items);
  std::size_t packed = 0;
  Py_ssize_t at = 0;
  for (PyObject *key = nullptr, *item = nullptr; PyDict_Next(dict.ptr(), &at, &key, &item) != 0;
       ++packed) {
    // Holds references: looking at a tensor may let another thread run, which may change the dict.
    const nb::object name = nb::borrow(key);
    const nb::object value = nb::borrow(item);
    if (!PyUnicode_CheckExact(key)) return std::nullopt;
    const int index = tensors.add(value);
    const auto text = index < 0 ? std::nullopt : text_of(name);
    if (!text || text->size() > kMost) return std::nullopt;
    packer.write(*text);
    packer.write(TensorIndex{static_cast<std::uint32_t>(index)});
  }
  return packed == items ? std::optional(packer.take()) : std::nullopt;
}

std::optional<std::vector<NamedTensor>> unpack_named(std::span<const std::byte> fields) {
  internal::PackCursor cursor(fields);
  constexpr std::size_t kLeast = 1 + 2 + sizeof(std::uint32_t);  // bytes of an item
  const auto items = cursor.map();
  if (!items || *items > cursor.left() / kLeast) return std::nullopt;
  std::vector<NamedTensor> named;
  for (std::size_t i = 0; i < *items; ++i) {
    const auto name = cursor.string();
    const auto index = name ? cursor.tensor() : std::nullopt;
    if (!index) return std::nullopt;
    if (named.empty()) named.reserve(*items);
    named.push_back({*name, *index});
  }
  return cursor.left() == 0 ? std::optional(std::move(named)) : std::nullopt;
}

}  // namespace tensorbus::python
