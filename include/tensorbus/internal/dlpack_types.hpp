#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <tensorbus/values/dtype.hpp>

// The element types that have a name in DLPack (https://dmlc.github.io/dlpack/latest/c_api.html).
// DLPack's header is not needed.
namespace tensorbus::inline v0 {
namespace internal {

enum DLPackCode : std::uint8_t {
  kDLPackInt = 0,
  kDLPackUInt = 1,
  kDLPackFloat = 2,
  kDLPackBFloat = 4,
  kDLPackComplex = 5,
  kDLPackBool = 6,
  kDLPackFloat8E3M4 = 7,
  kDLPackFloat8E4M3 = 8,
  kDLPackFloat8E4M3B11FNUZ = 9,
  kDLPackFloat8E4M3FN = 10,
  kDLPackFloat8E4M3FNUZ = 11,
  kDLPackFloat8E5M2 = 12,
  kDLPackFloat8E5M2FNUZ = 13,
  kDLPackFloat8E8M0FNU = 14,
  kDLPackFloat4E2M1FN = 17,
};

// DLPack's DLDataType.
struct DLPackType {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
  bool operator==(const DLPackType&) const = default;
};

struct DLPackNamed {
  DType dtype;
  DLPackType type;
};

inline constexpr auto kDLPackNamed = std::to_array<DLPackNamed>({
    {DType::kBool, {kDLPackBool, 8, 1}},
    {DType::kUInt8, {kDLPackUInt, 8, 1}},
    {DType::kInt8, {kDLPackInt, 8, 1}},
    {DType::kUInt16, {kDLPackUInt, 16, 1}},
    {DType::kInt16, {kDLPackInt, 16, 1}},
    {DType::kUInt32, {kDLPackUInt, 32, 1}},
    {DType::kInt32, {kDLPackInt, 32, 1}},
    {DType::kUInt64, {kDLPackUInt, 64, 1}},
    {DType::kInt64, {kDLPackInt, 64, 1}},
    {DType::kFloat16, {kDLPackFloat, 16, 1}},
    {DType::kBFloat16, {kDLPackBFloat, 16, 1}},
    {DType::kFloat32, {kDLPackFloat, 32, 1}},
    {DType::kFloat64, {kDLPackFloat, 64, 1}},
    {DType::kComplex32, {kDLPackComplex, 32, 1}},
    {DType::kComplex64, {kDLPackComplex, 64, 1}},
    {DType::kComplex128, {kDLPackComplex, 128, 1}},
    {DType::kFloat8E3M4, {kDLPackFloat8E3M4, 8, 1}},
    {DType::kFloat8E4M3, {kDLPackFloat8E4M3, 8, 1}},
    {DType::kFloat8E4M3B11FNUZ, {kDLPackFloat8E4M3B11FNUZ, 8, 1}},
    {DType::kFloat8E4M3FN, {kDLPackFloat8E4M3FN, 8, 1}},
    {DType::kFloat8E4M3FNUZ, {kDLPackFloat8E4M3FNUZ, 8, 1}},
    {DType::kFloat8E5M2, {kDLPackFloat8E5M2, 8, 1}},
    {DType::kFloat8E5M2FNUZ, {kDLPackFloat8E5M2FNUZ, 8, 1}},
    {DType::kFloat8E8M0FNU, {kDLPackFloat8E8M0FNU, 8, 1}},
    {DType::kFloat4E2M1FNx2, {kDLPackFloat4E2M1FN, 4, 2}},
});

constexpr std::optional<DLPackType> dlpack_type_of(DType dtype) noexcept {
  for (const DLPackNamed& named : kDLPackNamed)
    if (named.dtype == dtype) return named.type;
  return std::nullopt;
}
constexpr std::optional<DType> dtype_of_dlpack(const DLPackType& type) noexcept {
  for (const DLPackNamed& named : kDLPackNamed)
    if (named.type == type) return named.dtype;
  return std::nullopt;
}

}  // namespace internal
}  // namespace tensorbus::inline v0
