#pragma once

#include <string_view>
#include <type_traits>

// Declares which fields of a struct are fields of a message. Used once for each struct, in the
// global namespace:
//
//   struct Detection {
//     std::string label;
//     double score = 0;
//     std::vector<tensorbus::ArrayField> boxes;
//   };
//   TENSORBUS_MESSAGE(Detection, "robot.Detection", label, score, boxes)
//
// The name, and the names and types of the fields, define the type: a Python class with the same
// name and fields has the same type (docs/messages.md). A field that cannot be sent is a compile
// error that names it.
#define TENSORBUS_MESSAGE(Struct, name_of_type, ...)                                    \
  template <>                                                                           \
  struct tensorbus::MessageStruct<Struct> {                                             \
    using Struct_ = Struct;                                                             \
    static constexpr std::string_view kName = name_of_type;                             \
    static void visit([[maybe_unused]] auto& object, [[maybe_unused]] auto&& visitor) { \
      TENSORBUS_FOR_EACH_(TENSORBUS_VISIT_FIELD_, __VA_ARGS__)                          \
    }                                                                                   \
  };

#define TENSORBUS_VISIT_FIELD_(field) \
  tensorbus::internal::visit_field<&Struct_::field>(#field, object.field, visitor);

// macro(a) macro(b) ... for up to 256 arguments. Source: David Mazieres, "Recursive macros with
// C++20 __VA_OPT__".
#define TENSORBUS_PARENS_ ()
#define TENSORBUS_EXPAND_(...) \
  TENSORBUS_EXPAND4_(TENSORBUS_EXPAND4_(TENSORBUS_EXPAND4_(TENSORBUS_EXPAND4_(__VA_ARGS__))))
#define TENSORBUS_EXPAND4_(...) \
  TENSORBUS_EXPAND3_(TENSORBUS_EXPAND3_(TENSORBUS_EXPAND3_(TENSORBUS_EXPAND3_(__VA_ARGS__))))
#define TENSORBUS_EXPAND3_(...) \
  TENSORBUS_EXPAND2_(TENSORBUS_EXPAND2_(TENSORBUS_EXPAND2_(TENSORBUS_EXPAND2_(__VA_ARGS__))))
#define TENSORBUS_EXPAND2_(...) \
  TENSORBUS_EXPAND1_(TENSORBUS_EXPAND1_(TENSORBUS_EXPAND1_(TENSORBUS_EXPAND1_(__VA_ARGS__))))
#define TENSORBUS_EXPAND1_(...) __VA_ARGS__
#define TENSORBUS_FOR_EACH_(macro, ...) \
  __VA_OPT__(TENSORBUS_EXPAND_(TENSORBUS_FOR_EACH_HELPER_(macro, __VA_ARGS__)))
#define TENSORBUS_FOR_EACH_HELPER_(macro, first, ...) \
  macro(first) __VA_OPT__(TENSORBUS_FOR_EACH_AGAIN_ TENSORBUS_PARENS_(macro, __VA_ARGS__))
#define TENSORBUS_FOR_EACH_AGAIN_() TENSORBUS_FOR_EACH_HELPER_

namespace tensorbus::inline v0 {

// See TENSORBUS_MESSAGE.
template <typename Struct>
struct MessageStruct;

// A struct declared by TENSORBUS_MESSAGE.
template <typename T>
concept IsMessageStruct = requires { MessageStruct<T>::kName; };

namespace internal {

// Defines how fields of a C++ type are written in a definition and in a message
// (internal/message_field.hpp).
template <typename T>
struct Field;
template <typename T>
concept IsField = requires { Field<T>::spell(); };

// `member` only appears in the compiler's error.
template <auto member, typename T>
void visit_field(const char* name, T& field, auto&& visitor) {
  constexpr bool has_type_of_a_field = IsField<std::remove_const_t<T>>;
  static_assert(
      has_type_of_a_field,
      "this member cannot be a field of a message. A field is bool, an integer, float, "
      "double, std::string, std::vector<std::byte>, ArrayField, TorchField, Handle, Value, "
      "an enum declared by TENSORBUS_ENUM, a struct declared by TENSORBUS_MESSAGE, or "
      "std::optional, std::vector, std::array or std::map of these");
  if constexpr (has_type_of_a_field) visitor(name, field);
}

}  // namespace internal
}  // namespace tensorbus::inline v0
