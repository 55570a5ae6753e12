#pragma once

#include <array>
#include <string_view>
#include <tensorbus/values/message_struct.hpp>
#include <type_traits>
#include <utility>

// Declares which enumerators may be in a field of a message. Used once for each enum, in the global
// namespace:
//
//   enum class Mode { idle, driving = 4 };
//   TENSORBUS_ENUM(Mode, idle, driving)
//
// The name of the enum (without its namespace), and the names and values of the enumerators in this
// order, define the type. A Python enum with the same names and values has the same type:
//
//   class Mode(enum.IntEnum):
//       idle = 0
//       driving = 4
//
// Name each value only once, because Python does not count an alias as a member. The message
// contains the value, not its name. publish() and read_message() throw Error(kTypeMismatch) for any
// other value.
#define TENSORBUS_ENUM(Enum, ...)                                                       \
  template <>                                                                           \
  struct tensorbus::MessageEnum<Enum> {                                                 \
    using Enum_ = Enum;                                                                 \
    static constexpr std::string_view kName = #Enum;                                    \
    static constexpr auto kMembers = std::to_array<std::pair<std::string_view, Enum_>>( \
        {TENSORBUS_FOR_EACH_(TENSORBUS_ENUM_MEMBER_, __VA_ARGS__)});                    \
  };

#define TENSORBUS_ENUM_MEMBER_(member) {#member, Enum_::member},

namespace tensorbus::inline v0 {

// See TENSORBUS_ENUM.
template <typename Enum>
struct MessageEnum;

// An enum declared by TENSORBUS_ENUM.
template <typename T>
concept IsMessageEnum = std::is_enum_v<T> && requires { MessageEnum<T>::kMembers; };

namespace internal {

template <IsMessageEnum Enum>
constexpr std::string_view name_of_enum() {
  constexpr std::string_view name = MessageEnum<Enum>::kName;
  return name.substr(name.rfind(':') + 1);  // npos + 1 is 0
}

}  // namespace internal
}  // namespace tensorbus::inline v0
