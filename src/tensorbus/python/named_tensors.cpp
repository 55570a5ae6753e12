#include "tensorbus/python/named_tensors.hpp"

#include <array>
#include <cstring>
#include <limits>
#include <tensorbus/value.hpp>
#include <utility>

namespace tensorbus::python {
namespace {

constexpr std::size_t kMost = std::numeric_limits<std::uint32_t>::max();

// Numbers are big-endian, except an index.
constexpr std::uint8_t kShortMap = 0x80;  // with the number of items, below 16
constexpr std::uint8_t kMap16 = 0xde;
constexpr std::uint8_t kMap32 = 0xdf;
constexpr std::uint8_t kShortString = 0xa0;  // with the number of bytes, below 32
constexpr std::uint8_t kString8 = 0xd9;
constexpr std::uint8_t kString16 = 0xda;
constexpr std::uint8_t kString32 = 0xdb;
// An extension of four bytes: its type (a tensor) and the index.
constexpr std::array kReference = {std::byte{0xd6}, std::byte{1}};
constexpr std::size_t kReferenceBytes = kReference.size() + sizeof(std::uint32_t);

// Returns nothing for what is unexpected or missing, and for everything after it.
class Unpacker {
 public:
  explicit Unpacker(std::span<const std::byte> fields) : rest_(fields) {}

  std::optional<std::size_t> items() {
    const auto head = take(1);
    if (head.empty()) return std::nullopt;
    const auto kind = static_cast<std::uint8_t>(head.front());
    if (kind >= kShortMap && kind < kShortMap + 16) return kind - kShortMap;
    if (kind == kMap16) return number(2);
    if (kind == kMap32) return number(4);
    return std::nullopt;
  }
  std::optional<std::string_view> name() {
    const auto head = take(1);
    if (head.empty()) return std::nullopt;
    const auto size = size_of_name(static_cast<std::uint8_t>(head.front()));
    if (!size || *size > rest_.size()) return std::nullopt;
    const auto text = take(*size);
    return std::string_view(reinterpret_cast<const char*>(text.data()), text.size());
  }
  std::optional<std::uint32_t> reference() {
    const auto bytes = take(kReferenceBytes);
    if (bytes.empty() || bytes[0] != kReference[0] || bytes[1] != kReference[1])
      return std::nullopt;
    std::uint32_t index = 0;
    std::memcpy(&index, bytes.data() + kReference.size(), sizeof index);
    return index;
  }
  std::size_t left() const noexcept { return rest_.size(); }

 private:
  std::optional<std::size_t> size_of_name(std::uint8_t head) {
    if (head >= kShortString && head < kShortString + 32) return head - kShortString;
    if (head == kString8) return number(1);
    if (head == kString16) return number(2);
    if (head == kString32) return number(4);
    return std::nullopt;
  }
  std::optional<std::size_t> number(std::size_t digits) {
    const auto bytes = take(digits);
    if (bytes.empty()) return std::nullopt;
    std::size_t value = 0;
    for (const std::byte digit : bytes) value = value << 8 | static_cast<std::size_t>(digit);
    return value;
  }
  // Takes `count` bytes, or none.
  std::span<const std::byte> take(std::size_t count) {
    if (count > rest_.size()) return {};
    const auto part = rest_.first(count);
    rest_ = rest_.subspan(count);
    return part;
  }

  std::span<const std::byte> rest_;
};

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
  Unpacker unpacker(fields);
  const auto items = unpacker.items();
  if (!items || *items > unpacker.left() / (1 + kReferenceBytes)) return std::nullopt;
  std::vector<NamedTensor> named;
  for (std::size_t i = 0; i < *items; ++i) {
    const auto name = unpacker.name();
    const auto index = name ? unpacker.reference() : std::nullopt;
    if (!index) return std::nullopt;
    if (named.empty()) named.reserve(*items);
    named.push_back({*name, *index});
  }
  return unpacker.left() == 0 ? std::optional(std::move(named)) : std::nullopt;
}

}  // namespace tensorbus::python
