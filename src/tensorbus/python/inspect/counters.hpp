#pragma once

#include <chrono>
#include <concepts>
#include <string>
#include <tensorbus/internal/fields.hpp>
#include <type_traits>

#include "tensorbus/python/bindings.hpp"

namespace tensorbus::python {

// Returns a struct of counters under its Python names.
nb::dict dict_of(const tensorbus::internal::HasList auto& counters) {
  nb::dict dict;
  const auto put = [&](const char* name, const auto& value) {
    using Value = std::remove_cvref_t<decltype(value)>;
    if constexpr (std::same_as<Value, std::chrono::nanoseconds>)
      dict[name] = value.count();
    else if constexpr (std::same_as<Value, std::string>)
      dict[name] = text_of(value);
    else
      dict[name] = value;
  };
  tensorbus::internal::list_fields(put, counters);
  return dict;
}

}  // namespace tensorbus::python
