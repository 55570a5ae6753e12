#pragma once

#include <chrono>
#include <concepts>
#include <tensorbus/internal/fields.hpp>

// Converts structs of counters to their C structs.
namespace tensorbus::c {

// For list_fields(): fills each number that the C struct has.
struct NumbersToC {
  void operator()(const char*, const auto&) const noexcept {}
  template <typename Number>
    requires std::integral<Number> || std::floating_point<Number>
  void operator()(const char*, auto number, Number& c_number) const noexcept {
    c_number = static_cast<Number>(number);
  }
  void operator()(const char*, std::chrono::nanoseconds time,
                  std::integral auto& c_time) const noexcept {
    c_time = static_cast<std::remove_reference_t<decltype(c_time)>>(time.count());
  }
};

template <typename Struct>
Struct c_stats(const auto& stats) noexcept {
  Struct made{};
  made.struct_size = sizeof(Struct);
  constexpr NumbersToC kNumbers;
  tensorbus::internal::list_fields(kNumbers, stats, made);
  return made;
}

}  // namespace tensorbus::c
