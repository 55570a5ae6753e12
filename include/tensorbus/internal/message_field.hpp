#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tensorbus/handle.hpp>
#include <tensorbus/message_fields.hpp>
#include <tensorbus/values/error.hpp>
#include <tensorbus/values/id.hpp>
#include <tensorbus/values/message.hpp>
#include <tensorbus/values/message_enum.hpp>
#include <tensorbus/values/message_struct.hpp>
#include <tensorbus/values/message_type.hpp>
#include <tensorbus/values/value.hpp>
#include <type_traits>
#include <utility>
#include <vector>

// How each C++ type of a field is written in a type's definition and in a message: Field<T>.
namespace tensorbus::inline v0::internal {

// The tensors of a message to send, in the order of their indices in the fields.
struct Outgoing {
  std::vector<TensorView> tensors;
  Value add(const TensorField& field, TensorFlags library) {
    tensors.push_back(field.view());
    tensors.back().layout.flags = tensors.back().layout.flags | library;
    return TensorIndex{static_cast<std::uint32_t>(tensors.size() - 1)};
  }
};

// Throws Error(kTypeMismatch) that names what was expected, and what came.
[[noreturn]] inline void throw_not_as_expected(std::string_view expected, std::string_view came) {
  throw Error(Code::kTypeMismatch, "expected " + std::string(expected) + ", " + std::string(came));
}
[[noreturn]] inline void throw_unexpected(std::string_view expected, const Value& came) {
  throw_not_as_expected(expected, "this is " + what_is(came));
}

struct Incoming {
  std::span<const Tensor> tensors;

  Tensor at(const Value& value) const {
    if (!value.is<TensorIndex>()) throw_unexpected("a tensor", value);
    const std::uint32_t index = value.as<TensorIndex>().index;
    if (index >= tensors.size())
      throw Error(Code::kProtocol, "there is no tensor " + std::to_string(index));
    return tensors[index];
  }
};

// Rethrows an error of a field, with the name of the field.
[[noreturn]] inline void rethrow_in_field(std::string_view field, const Error& error) {
  const std::string what(error.what());
  const bool deeper = what.starts_with(".");
  throw Error(error.code(), "." + std::string(field) + (deeper ? "" : ": ") + what);
}
[[noreturn]] inline void rethrow_in_type(std::string_view type, const Error& error) {
  const std::string what(error.what());
  throw Error(error.code(), what.starts_with(".") ? std::string(type) + what : what);
}

inline std::string sorted_union(std::string one, std::string other) {
  if (other < one) std::swap(one, other);
  return one + "|" + other;
}

inline Value record_of(std::string_view type, Value fields) {
  const Value record = Value::List{kMessage, std::string(type), std::move(fields)};
  return Value::Extension{kRecordType, record.encode()};
}

// Throws Error(kTypeMismatch) for a message of another type.
inline Value fields_of_record(std::string_view type, const Value& value) {
  if (value.is<Value::Map>()) return value;  // from a sender without types
  if (auto message = message_in(value); message && message->first == type)
    return std::move(message->second);
  throw_unexpected(type, value);
}

// A type that a Value can hold. Field<T>::kName is its name.
template <typename T>
struct PlainField {
  static std::string spell() { return Field<T>::kName; }
  static Value write(Outgoing&, const T& value) { return value; }
  static void read(const Incoming&, const Value& from, T& to) {
    if (!from.is<T>()) throw_unexpected(Field<T>::kName, from);
    to = from.as<T>();
  }
};

template <>
struct Field<bool> : PlainField<bool> {
  static constexpr const char* kName = "bool";
};

template <std::integral T>
struct Field<T> {
  static std::string spell() { return "int"; }
  static Value write(Outgoing&, T value) {
    if constexpr (std::is_signed_v<T>)
      return static_cast<std::int64_t>(value);
    else
      return static_cast<std::uint64_t>(value);
  }
  static void read(const Incoming&, const Value& from, T& to) {
    if (from.is<std::int64_t>() && std::in_range<T>(from.as<std::int64_t>()))
      to = static_cast<T>(from.as<std::int64_t>());
    else if (from.is<std::uint64_t>() && std::in_range<T>(from.as<std::uint64_t>()))
      to = static_cast<T>(from.as<std::uint64_t>());
    else
      throw_unexpected("int of " + std::to_string(8 * sizeof(T)) + " bits", from);
  }
};

template <std::floating_point T>
struct Field<T> {
  static std::string spell() { return "float"; }
  static Value write(Outgoing&, T value) { return static_cast<double>(value); }
  static void read(const Incoming&, const Value& from, T& to) {
    if (from.is<double>())
      to = static_cast<T>(from.as<double>());
    else if (from.is<std::int64_t>())
      to = static_cast<T>(from.as<std::int64_t>());
    else
      throw_unexpected("float", from);
  }
};

template <>
struct Field<std::string> : PlainField<std::string> {
  static constexpr const char* kName = "str";
};

template <>
struct Field<Value::Bytes> : PlainField<Value::Bytes> {
  static constexpr const char* kName = "bytes";
};

// Any value without tensors.
template <>
struct Field<Value> {
  static std::string spell() { return "any"; }
  static Value write(Outgoing&, const Value& value) { return value; }
  static void read(const Incoming&, const Value& from, Value& to) { to = from; }
};

template <>
struct Field<Value::Map> : PlainField<Value::Map> {
  static constexpr const char* kName = "dict";
  static std::string spell() { return "dict<any,any>"; }
};

// A tensor that Python receives as a tensor of this library.
template <typename T, TensorFlags library>
struct LibraryField {
  static Value write(Outgoing& to, const T& field) { return to.add(field, library); }
  static void read(const Incoming& from, const Value& value, T& to) { to = from.at(value); }
};

template <>
struct Field<ArrayField> : LibraryField<ArrayField, TensorFlags::kFromNumpy> {
  static std::string spell() { return "array"; }
};

template <>
struct Field<TorchField> : LibraryField<TorchField, TensorFlags::kFromTorch> {
  static std::string spell() { return "tensor"; }
};

template <>
struct Field<Handle> {
  static std::string spell() { return "handle"; }
  static Value write(Outgoing&, const Handle& handle) { return handle; }
  static void read(const Incoming&, const Value& from, Handle& to) {
    auto text = handle_text_in(from);
    if (!text) throw_unexpected("handle", from);
    to = Handle::parse(*std::move(text));
  }
};

template <IsField T>
struct Field<std::optional<T>> {
  static std::string spell() { return sorted_union(Field<T>::spell(), "none"); }
  static Value write(Outgoing& to, const std::optional<T>& field) {
    return field ? Field<T>::write(to, *field) : Value();
  }
  static void read(const Incoming& from, const Value& value, std::optional<T>& to) {
    if (value.is<std::nullptr_t>()) {
      to.reset();
      return;
    }
    T made{};
    Field<T>::read(from, value, made);
    to = std::move(made);
  }
};

template <IsField T>
struct Field<std::vector<T>> {
  static std::string spell() { return "list<" + Field<T>::spell() + ">"; }
  static Value write(Outgoing& to, const std::vector<T>& items) {
    Value::List list;
    list.reserve(items.size());
    for (const T& item : items) list.push_back(Field<T>::write(to, item));
    return list;
  }
  static void read(const Incoming& from, const Value& value, std::vector<T>& to) {
    if (!value.is<Value::List>()) throw_unexpected("list", value);
    to.clear();
    for (const Value& item : value.as<Value::List>()) {
      T made{};
      Field<T>::read(from, item, made);
      to.push_back(std::move(made));
    }
  }
};

// Python's tuple with a type for each place.
template <IsField T, std::size_t count>
struct Field<std::array<T, count>> {
  static std::string spell() {
    std::string places;
    for (std::size_t i = 0; i < count; ++i) places += (i == 0 ? "" : ",") + Field<T>::spell();
    return "tuple<" + places + ">";
  }
  static Value write(Outgoing& to, const std::array<T, count>& items) {
    Value::Tuple tuple;
    tuple.items.reserve(count);
    for (const T& item : items) tuple.items.push_back(Field<T>::write(to, item));
    return tuple;
  }
  static void read(const Incoming& from, const Value& value, std::array<T, count>& to) {
    if (!value.is<Value::Tuple>() || value.as<Value::Tuple>().items.size() != count)
      throw_unexpected("tuple of " + std::to_string(count), value);
    for (std::size_t i = 0; i < count; ++i)
      Field<T>::read(from, value.as<Value::Tuple>().items[i], to[i]);
  }
};

// Python's enum of ints: its values are sent.
template <IsMessageEnum Enum>
struct Field<Enum> {
  static std::string spell() {
    std::string members;
    for (const auto& [name, member] : MessageEnum<Enum>::kMembers)
      members.append(members.empty() ? "" : ",").append(name).append("=" + text_of(member));
    return "enum<" + std::string(name_of_enum<Enum>()) + ": " + members + ">";
  }
  static Value write(Outgoing&, Enum value) {
    for (const auto& [name, member] : MessageEnum<Enum>::kMembers)
      if (member == value) return number_of(value);
    throw_not_as_expected(spell(), "got " + text_of(value));
  }
  static void read(const Incoming&, const Value& from, Enum& to) {
    for (const auto& [name, member] : MessageEnum<Enum>::kMembers) {
      if (from != number_of(member)) continue;
      to = member;
      return;
    }
    throw_unexpected(spell(), from);
  }

 private:
  static auto widened(Enum value) {
    using Number = std::underlying_type_t<Enum>;
    using Wide = std::conditional_t<std::is_signed_v<Number>, std::int64_t, std::uint64_t>;
    return static_cast<Wide>(value);
  }
  static Value number_of(Enum value) { return widened(value); }
  static std::string text_of(Enum value) { return std::to_string(widened(value)); }
};

template <IsField K, IsField V>
struct Field<std::map<K, V>> {
  static std::string spell() { return "dict<" + Field<K>::spell() + "," + Field<V>::spell() + ">"; }
  static Value write(Outgoing& to, const std::map<K, V>& items) {
    Value::Map map;
    for (const auto& [key, item] : items)
      map.emplace_back(Field<K>::write(to, key), Field<V>::write(to, item));
    return map;
  }
  static void read(const Incoming& from, const Value& value, std::map<K, V>& to) {
    if (!value.is<Value::Map>()) throw_unexpected("dict", value);
    to.clear();
    for (const auto& [key, item] : value.as<Value::Map>()) {
      K made{};
      Field<K>::read(from, key, made);
      Field<V>::read(from, item, to[std::move(made)]);
    }
  }
};

template <typename T>
inline constexpr bool kMayBeLeftOut = false;
template <typename T>
inline constexpr bool kMayBeLeftOut<std::optional<T>> = true;

template <IsMessageStruct Struct>
MessageType type_of_struct() {
  std::map<std::string_view, std::string> lines;
  Struct object{};
  MessageStruct<Struct>::visit(object, [&]<typename T>(std::string_view name, T&) {
    lines[name] = Field<T>::spell() + (kMayBeLeftOut<T> ? " = ..." : "");
  });
  std::string definition(MessageStruct<Struct>::kName);
  for (const auto& [name, type] : lines)
    definition.append("\n").append(name).append(": ").append(type);
  return MessageType(std::move(definition));
}

template <IsMessageStruct Struct>
Value write_struct(Outgoing& to, const Struct& object) {
  Value::Map map;
  MessageStruct<Struct>::visit(object, [&]<typename T>(const char* name, const T& field) {
    map.emplace_back(name, Field<T>::write(to, field));
  });
  return map;
}

template <IsMessageStruct Struct>
void read_struct(const Incoming& from, const Value& value, Struct& to) {
  if (!value.is<Value::Map>()) throw_unexpected(MessageStruct<Struct>::kName, value);
  MessageStruct<Struct>::visit(to, [&]<typename T>(std::string_view name, T& field) {
    try {
      if (const Value* found = value.find(name))
        Field<T>::read(from, *found, field);
      else if (!kMayBeLeftOut<T>)
        throw_not_as_expected("a value", "there is none");
    } catch (const Error& error) {
      rethrow_in_field(name, error);
    }
  });
}

// Returns how a definition refers to this type: by its name and fingerprint.
inline std::string reference_to(const MessageType& type) {
  std::string text = std::string(type.name()) + "#";
  for (int shift = 60; shift >= 0; shift -= 4)
    text += kHexDigits[(type.fingerprint() >> shift) & 15U];
  return text;
}

template <IsMessageStruct Struct>
Struct read_message(std::span<const Tensor> tensors, const Value& fields) {
  Struct message{};
  try {
    read_struct({tensors}, fields, message);
  } catch (const Error& error) {
    rethrow_in_type(MessageStruct<Struct>::kName, error);
  }
  return message;
}

// A message in a message: a record of its type's name and its fields.
template <IsMessageStruct Struct>
struct Field<Struct> {
  static std::string spell() { return reference_to(type_of_struct<Struct>()); }
  static Value write(Outgoing& to, const Struct& object) {
    return record_of(MessageStruct<Struct>::kName, write_struct(to, object));
  }
  static void read(const Incoming& from, const Value& value, Struct& to) {
    read_struct(from, fields_of_record(MessageStruct<Struct>::kName, value), to);
  }
};

}  // namespace tensorbus::inline v0::internal
