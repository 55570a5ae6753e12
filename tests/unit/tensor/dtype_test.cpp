#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <tensorbus/values/dtype.hpp>

namespace tensorbus {
namespace {

struct Expected {
  int number;
  const char* name;
  std::size_t bytes;
};

// The numbers travel between processes of different versions: this table only ever grows.
constexpr Expected kExpected[] = {{1, "bool", 1},
                                  {2, "uint8", 1},
                                  {3, "int8", 1},
                                  {4, "uint16", 2},
                                  {5, "int16", 2},
                                  {6, "uint32", 4},
                                  {7, "int32", 4},
                                  {8, "uint64", 8},
                                  {9, "int64", 8},
                                  {10, "float16", 2},
                                  {11, "bfloat16", 2},
                                  {12, "float32", 4},
                                  {13, "float64", 8},
                                  {14, "complex64", 8},
                                  {15, "complex128", 16},
                                  {16, "complex32", 4},
                                  {17, "float8_e4m3fn", 1},
                                  {18, "float8_e4m3fnuz", 1},
                                  {19, "float8_e5m2", 1},
                                  {20, "float8_e5m2fnuz", 1},
                                  {21, "float8_e8m0fnu", 1},
                                  {22, "float4_e2m1fn_x2", 1},
                                  {23, "float8_e3m4", 1},
                                  {24, "float8_e4m3", 1},
                                  {25, "float8_e4m3b11fnuz", 1},
                                  {26, "float6_e2m3fn", 1},
                                  {27, "float6_e3m2fn", 1},
                                  {28, "float4_e2m1fn", 1},
                                  {29, "bcomplex32", 4},
                                  {30, "int1", 1},
                                  {31, "int2", 1},
                                  {32, "int3", 1},
                                  {33, "int4", 1},
                                  {34, "int5", 1},
                                  {35, "int6", 1},
                                  {36, "int7", 1},
                                  {37, "uint1", 1},
                                  {38, "uint2", 1},
                                  {39, "uint3", 1},
                                  {40, "uint4", 1},
                                  {41, "uint5", 1},
                                  {42, "uint6", 1},
                                  {43, "uint7", 1},
                                  {44, "bits8", 1},
                                  {45, "bits16", 2},
                                  {46, "bits1x8", 1},
                                  {47, "bits2x4", 1},
                                  {48, "bits4x2", 1}};

TEST(DType, has_its_number_its_name_and_its_size) {
  for (const auto& [number, name, bytes] : kExpected) {
    const auto dtype = static_cast<DType>(number);
    EXPECT_EQ(name_of(dtype), name);
    EXPECT_EQ(item_bytes(dtype), bytes) << name;
    EXPECT_EQ(dtype_named(name), dtype);
  }
}

TEST(DType, other_numbers_and_names_are_none) {
  for (int number = 0; number < 256; ++number) {
    if (number >= 1 && number <= 48) continue;
    EXPECT_EQ(item_bytes(static_cast<DType>(number)), 0U) << number;
    EXPECT_EQ(name_of(static_cast<DType>(number)), "") << number;
  }
  for (const char* name : {"", "float", "Float32", "float32 ", "torch.float32"})
    EXPECT_FALSE(dtype_named(name)) << name;
}

TEST(DType, is_known_for_the_element_types_of_the_language) {
  EXPECT_EQ(dtype_of<bool>(), DType::kBool);
  EXPECT_EQ(dtype_of<std::uint8_t>(), DType::kUInt8);
  EXPECT_EQ(dtype_of<std::int8_t>(), DType::kInt8);
  EXPECT_EQ(dtype_of<std::uint16_t>(), DType::kUInt16);
  EXPECT_EQ(dtype_of<std::int16_t>(), DType::kInt16);
  EXPECT_EQ(dtype_of<std::uint32_t>(), DType::kUInt32);
  EXPECT_EQ(dtype_of<std::int32_t>(), DType::kInt32);
  EXPECT_EQ(dtype_of<std::uint64_t>(), DType::kUInt64);
  EXPECT_EQ(dtype_of<std::int64_t>(), DType::kInt64);
  EXPECT_EQ(dtype_of<long long>(), DType::kInt64);
  EXPECT_EQ(dtype_of<float>(), DType::kFloat32);
  EXPECT_EQ(dtype_of<double>(), DType::kFloat64);
  EXPECT_EQ(dtype_of<std::complex<float>>(), DType::kComplex64);
  EXPECT_EQ(dtype_of<std::complex<double>>(), DType::kComplex128);
}

}  // namespace
}  // namespace tensorbus
