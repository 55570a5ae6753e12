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
  kComplex32 = 16,
  // The small floats of the OCP and Graphcore formats, a byte each. float4_e2m1fn_x2 is PyTorch's:
  // two in one byte; float4_e2m1fn and the narrow integers take a byte each.
  kFloat8E4M3FN = 17,
  kFloat8E4M3FNUZ = 18,
  kFloat8E5M2 = 19,
  kFloat8E5M2FNUZ = 20,
  kFloat8E8M0FNU = 21,
  kFloat4E2M1FNx2 = 22,
  kFloat8E3M4 = 23,
  kFloat8E4M3 = 24,
  kFloat8E4M3B11FNUZ = 25,
  kFloat6E2M3FN = 26,
  kFloat6E3M2FN = 27,
  kFloat4E2M1FN = 28,
  kBComplex32 = 29,
  kInt1 = 30,
  kInt2 = 31,
  kInt3 = 32,
  kInt4 = 33,
  kInt5 = 34,
  kInt6 = 35,
  kInt7 = 36,
  kUInt1 = 37,
  kUInt2 = 38,
  kUInt3 = 39,
  kUInt4 = 40,
  kUInt5 = 41,
  kUInt6 = 42,
  kUInt7 = 43,
  // PyTorch's bits without a meaning.
  kBits8 = 44,
  kBits16 = 45,
  kBits1x8 = 46,
  kBits2x4 = 47,
  kBits4x2 = 48,
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
