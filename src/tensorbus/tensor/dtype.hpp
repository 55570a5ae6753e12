#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>

#include "tensorbus/platform/export.hpp"

namespace tensorbus {

// What an element is. The numbers travel in descriptors and never change; new ones are added at the
// end.
enum class DType : std::uint8_t {
  kBool = 1,
  kUInt8 = 2,
  kInt8 = 3,
  kUInt16 = 4,
  kInt16 = 5,
  kUInt32 = 6,
  kInt32 = 7,
  kUInt64 = 8,
  kInt64 = 9,
  kFloat16 = 10,
  kBFloat16 = 11,
  kFloat32 = 12,
  kFloat64 = 13,
  kComplex64 = 14,
  kComplex128 = 15,
};

// Bytes of one element; 0 for a number that is no dtype.
TENSORBUS_API std::size_t item_bytes(DType dtype) noexcept;

// "float32", as PyTorch and NumPy spell it; "" for a number that is no dtype.
TENSORBUS_API std::string_view name_of(DType dtype) noexcept;
TENSORBUS_API std::optional<DType> dtype_named(std::string_view name) noexcept;

// The dtype of a C++ element type.
template <typename T>
constexpr DType dtype_of() noexcept {
  if constexpr (std::is_same_v<T, bool>)
    return DType::kBool;
  else if constexpr (std::is_same_v<T, float>)
    return DType::kFloat32;
  else if constexpr (std::is_same_v<T, double>)
    return DType::kFloat64;
  else if constexpr (std::is_same_v<T, std::complex<float>>)
    return DType::kComplex64;
  else if constexpr (std::is_same_v<T, std::complex<double>>)
    return DType::kComplex128;
  else {
    static_assert(std::is_integral_v<T> && sizeof(T) <= 8, "no dtype for this element type");
    constexpr int base = sizeof(T) == 1 ? 2 : sizeof(T) == 2 ? 4 : sizeof(T) == 4 ? 6 : 8;
    return static_cast<DType>(base + (std::is_signed_v<T> ? 1 : 0));
  }
}

}  // namespace tensorbus
