#include "tensorbus/tensor/dtype.hpp"

#include <array>

namespace tensorbus {
namespace {

struct Info {
  std::string_view name;
  std::size_t bytes;
};

// By number; 0 is no dtype.
constexpr auto kInfo = std::to_array<Info>({{"", 0},
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

const Info& info(DType dtype) noexcept {
  const auto number = static_cast<std::size_t>(dtype);
  return kInfo[number < kInfo.size() ? number : 0];
}

}  // namespace

std::size_t item_bytes(DType dtype) noexcept { return info(dtype).bytes; }

std::string_view name_of(DType dtype) noexcept { return info(dtype).name; }

std::optional<DType> dtype_named(std::string_view name) noexcept {
  for (std::size_t number = 1; number < kInfo.size(); ++number)
    if (kInfo[number].name == name) return static_cast<DType>(number);
  return std::nullopt;
}

}  // namespace tensorbus
