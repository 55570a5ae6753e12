#pragma once

#include <array>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>

namespace tensorbus::inline v0 {

// Element types. The numbers are part of the protocol and never change; new ones are added at the
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
  // The small floats of the OCP and Graphcore formats, one byte each. float4_e2m1fn_x2 is PyTorch's
  // type with two in a byte; float4_e2m1fn and the narrow integers take one byte each.
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
  // PyTorch's types of uninterpreted bits.
  kBits8 = 44,
  kBits16 = 45,
  kBits1x8 = 46,
  kBits2x4 = 47,
  kBits4x2 = 48,
};

namespace internal {

struct DTypeInfo {
  std::string_view name;
  std::size_t bytes;
};

// By number; 0 is not a dtype.
inline constexpr auto kDTypes = std::to_array<DTypeInfo>({{"", 0},
                                                          {"bool", 1},
                                                          {"uint8", 1},
                                                          {"int8", 1},
                                                          {"uint16", 2},
                                                          {"int16", 2},
                                                          {"uint32", 4},
                                                          {"int32", 4},
                                                          {"uint64", 8},
                                                          {"int64", 8},
                                                          {"float16", 2},
                                                          {"bfloat16", 2},
                                                          {"float32", 4},
                                                          {"float64", 8},
                                                          {"complex64", 8},
                                                          {"complex128", 16},
                                                          {"complex32", 4},
                                                          {"float8_e4m3fn", 1},
                                                          {"float8_e4m3fnuz", 1},
                                                          {"float8_e5m2", 1},
                                                          {"float8_e5m2fnuz", 1},
                                                          {"float8_e8m0fnu", 1},
                                                          {"float4_e2m1fn_x2", 1},
                                                          {"float8_e3m4", 1},
                                                          {"float8_e4m3", 1},
                                                          {"float8_e4m3b11fnuz", 1},
                                                          {"float6_e2m3fn", 1},
                                                          {"float6_e3m2fn", 1},
                                                          {"float4_e2m1fn", 1},
                                                          {"bcomplex32", 4},
                                                          {"int1", 1},
                                                          {"int2", 1},
                                                          {"int3", 1},
                                                          {"int4", 1},
                                                          {"int5", 1},
                                                          {"int6", 1},
                                                          {"int7", 1},
                                                          {"uint1", 1},
                                                          {"uint2", 1},
                                                          {"uint3", 1},
                                                          {"uint4", 1},
                                                          {"uint5", 1},
                                                          {"uint6", 1},
                                                          {"uint7", 1},
                                                          {"bits8", 1},
                                                          {"bits16", 2},
                                                          {"bits1x8", 1},
                                                          {"bits2x4", 1},
                                                          {"bits4x2", 1}});

constexpr const DTypeInfo& info_of(DType dtype) noexcept {
  const auto number = static_cast<std::size_t>(dtype);
  return kDTypes[number < kDTypes.size() ? number : 0];
}

}  // namespace internal

// Returns the bytes of one element; 0 for a number that is not a dtype.
constexpr std::size_t item_bytes(DType dtype) noexcept { return internal::info_of(dtype).bytes; }

// Returns e.g. "float32", as PyTorch and NumPy spell it; "" for a number that is not a dtype.
constexpr std::string_view name_of(DType dtype) noexcept { return internal::info_of(dtype).name; }
constexpr std::optional<DType> dtype_named(std::string_view name) noexcept {
  for (std::size_t number = 1; number < internal::kDTypes.size(); ++number)
    if (internal::kDTypes[number].name == name) return static_cast<DType>(number);
  return std::nullopt;
}

// Returns the dtype of a C++ element type.
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

}  // namespace tensorbus::inline v0
