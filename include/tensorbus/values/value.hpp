#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tensorbus/values/error.hpp>
#include <utility>
#include <variant>
#include <vector>

namespace tensorbus::inline v0 {

// The small fields of a sample, as a tree. Sent as MessagePack. A tensor in the tree is its index
// among the sample's tensors (extension type 1, u32 little-endian); a Python tuple is extension
// type 2 around a MessagePack array. Python's other types (sets, NumPy's dtypes, sparse tensors,
// ...; docs/tensors.md) are extension type 3, kept as an Extension.
//
//   Value fields = Value::Map{{"image", TensorIndex{0}}, {"id", 7}};
//   fields.at("id").as<std::int64_t>();  // 7
class Value {
 public:
  struct TensorIndex {
    std::uint32_t index = 0;
    bool operator==(const TensorIndex&) const = default;
  };
  struct Tuple {
    std::vector<Value> items;
    bool operator==(const Tuple&) const = default;
  };
  // An unknown extension type, kept unchanged.
  struct Extension {
    std::int8_t type = 0;
    std::vector<std::byte> bytes;
    bool operator==(const Extension&) const = default;
  };
  using Bytes = std::vector<std::byte>;
  using List = std::vector<Value>;
  using Map = std::vector<std::pair<Value, Value>>;  // in the order in which they were written
  using Variant = std::variant<std::nullptr_t, bool, std::int64_t, std::uint64_t, double,
                               std::string, Bytes, List, Map, Tuple, TensorIndex, Extension>;

  Value() : variant_(nullptr) {}
  Value(std::nullptr_t) : variant_(nullptr) {}
  Value(bool value) : variant_(value) {}
  Value(int value) : variant_(std::int64_t{value}) {}
  Value(std::int64_t value) : variant_(value) {}
  // Kept as int64 if it fits, so that equal numbers compare equal.
  Value(std::uint64_t value);
  Value(double value) : variant_(value) {}
  Value(const char* value) : variant_(std::string(value)) {}
  Value(std::string value) : variant_(std::move(value)) {}
  Value(Bytes value) : variant_(std::move(value)) {}
  Value(List value) : variant_(std::move(value)) {}
  Value(Map value) : variant_(std::move(value)) {}
  Value(Tuple value) : variant_(std::move(value)) {}
  Value(TensorIndex value) : variant_(value) {}
  Value(Extension value) : variant_(std::move(value)) {}

  template <typename T>
  bool is() const noexcept {
    return std::holds_alternative<T>(variant_);
  }
  // Throws Error(kInvalidArgument) that names both types. A temporary, such as `sample.fields()`,
  // gives the value itself and no reference into it; so do at() and variant().
  template <typename T>
  const T& as() const& {
    if (const T* value = std::get_if<T>(&variant_)) return *value;
    throw_wrong_type(Variant(T{}).index());
  }
  template <typename T>
  T as() && {
    if (T* value = std::get_if<T>(&variant_)) return std::move(*value);
    throw_wrong_type(Variant(T{}).index());
  }
  // Returns the value of a string key of a map; throws Error(kInvalidArgument) if there is none.
  const Value& at(std::string_view key) const&;
  Value at(std::string_view key) &&;
  // Like at(), but returns nullptr if there is none. For a temporary, use contains() and at().
  const Value* find(std::string_view key) const& noexcept;
  const Value* find(std::string_view key) && = delete;  // it would point into what is gone
  bool contains(std::string_view key) const noexcept { return find(key) != nullptr; }
  // Returns the fields of a message, by name: the message is a map, or a typed message that is a
  // field of another one. Throws Error(kInvalidArgument) for other values, and Error(kProtocol) if
  // the bytes of the typed message are malformed.
  //
  //   sample.fields().at("header").fields().at("frame_id").as<std::string>();
  Value fields() const&;
  Value fields() &&;

  const Variant& variant() const& noexcept { return variant_; }
  Variant variant() && noexcept { return std::move(variant_); }
  bool operator==(const Value& other) const;

  // Throws Error(kInvalidArgument) for values that decode() would refuse: more than 64 levels.
  std::vector<std::byte> encode() const;
  // Decodes bytes, which may be untrusted. Throws Error(kProtocol) unless they are exactly one
  // complete value of at most 64 levels.
  static Value decode(std::span<const std::byte> bytes);

 private:
  [[noreturn]] void throw_wrong_type(std::size_t wanted) const;

  Variant variant_;
};

using TensorIndex = Value::TensorIndex;

namespace internal {

inline constexpr std::array<const char*, 12> kValueTypeNames = {
    "nil",   "bool", "int64", "uint64", "double", "string",
    "bytes", "list", "map",   "tuple",  "tensor", "extension"};
static_assert(kValueTypeNames.size() == std::variant_size_v<Value::Variant>);

// Returns the name with its article: "an int64".
inline std::string a_value_of(std::size_t type) {
  const std::string name = kValueTypeNames[type];
  return (std::string_view("aeio").find(name[0]) == std::string_view::npos ? "a " : "an ") + name;
}

// Returns the name and the parts of a record (docs/tensors.md); nothing for any other value. Throws
// Error(kProtocol) if the bytes of the record are malformed.
Value::List record_in(const Value& value);
// Returns the type and the fields of a typed message; else like record_in().
std::optional<std::pair<std::string, Value>> message_in(const Value& value);

// Returns the start of a text of a sender that fits an error text, without control characters. It
// ends with a whole character of UTF-8.
inline std::string shortened(std::string_view text) {
  constexpr std::size_t kLongest = 100;
  std::size_t end = std::min(text.size(), kLongest);
  while (end != 0 && end != text.size() && (static_cast<unsigned char>(text[end]) & 0xc0U) == 0x80)
    --end;
  std::string shown(text.substr(0, end));
  for (char& each : shown)
    if (static_cast<unsigned char>(each) < 0x20 || each == 0x7f) each = '?';
  return end != text.size() ? shown + "..." : shown;
}

// Returns the name of the type of a typed message, for error texts; nothing for any other value.
inline std::optional<std::string> message_name_in(const Value& value) {
  try {
    if (const auto message = message_in(value)) return shortened(message->first);
  } catch (const Error&) {  // its bytes are malformed: an extension
  }
  return {};
}

// Returns what a value is, for error texts: "an int64", "a message of type acme.Header".
inline std::string what_is(const Value& value) {
  if (const auto type = message_name_in(value)) return "a message of type " + *type;
  return a_value_of(value.variant().index());
}

// Returns the names of a map's fields, for error texts: "a", "b".
inline std::string names_of(const Value::Map& fields) {
  constexpr std::size_t kLongest = 1000;
  std::string names;
  for (const auto& [key, item] : fields) {
    if (!key.is<std::string>()) continue;
    if (names.size() > kLongest) return names + ", ...";
    names += (names.empty() ? "\"" : ", \"") + shortened(key.as<std::string>()) + '"';
  }
  return names;
}

// Returns the end of an error text: why a value lacks the field, and what to do.
inline std::string why_no_field(const Value& value) {
  if (value.is<std::nullptr_t>())
    return ": there are no fields, as in a message that is a single tensor: get that without a key";
  if (value.is<TensorIndex>()) return ": this is a single tensor: get it without a key";
  if (value.is<Value::Map>()) {
    const std::string names = names_of(value.as<Value::Map>());
    return names.empty() ? ": there are no fields" : "; there are " + names;
  }
  const auto type = message_name_in(value);
  if (type) return ": this is a message of type " + *type + ", whose fields are in fields()";
  return ": this is " + a_value_of(value.variant().index()) + ", not a map";
}

}  // namespace internal

// Not defaulted in the class, because its maps are incomplete there and nvcc rejects that.
inline bool Value::operator==(const Value& other) const { return variant_ == other.variant_; }

inline Value::Value(std::uint64_t value) {
  if (value <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
    variant_ = static_cast<std::int64_t>(value);
  else
    variant_ = value;
}

inline const Value* Value::find(std::string_view key) const& noexcept {
  const Map* map = std::get_if<Map>(&variant_);
  if (map == nullptr) return nullptr;
  for (const auto& [name, value] : *map) {
    const auto* text = std::get_if<std::string>(&name.variant_);
    if (text != nullptr && *text == key) return &value;
  }
  return nullptr;
}

inline const Value& Value::at(std::string_view key) const& {
  if (const Value* value = find(key)) return *value;
  throw Error(Code::kInvalidArgument,
              "no field \"" + std::string(key) + '"' + internal::why_no_field(*this));
}

inline Value Value::at(std::string_view key) && {
  return std::move(const_cast<Value&>(std::as_const(*this).at(key)));
}

inline Value Value::fields() const& { return Value(*this).fields(); }

inline Value Value::fields() && {
  if (is<Map>()) return std::move(*this);
  if (auto message = internal::message_in(*this)) return std::move(message->second);
  throw Error(Code::kInvalidArgument, "expected a message, this is " + internal::what_is(*this));
}

inline void Value::throw_wrong_type(std::size_t wanted) const {
  throw Error(Code::kInvalidArgument, "expected " + internal::a_value_of(wanted) + ", this is " +
                                          internal::a_value_of(variant_.index()));
}

}  // namespace tensorbus::inline v0

#include <tensorbus/internal/message_pack.hpp>  // encode(), decode(), message_in()
