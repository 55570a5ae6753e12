#include "tensorbus/tensor/dtype.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace tensorbus {
namespace {

struct Expected {
  int number;
  const char* name;
  std::size_t bytes;
};

// The numbers travel between processes of different versions: this table only ever grows.
constexpr Expected kExpected[] = {{1, "bool", 1},     {2, "uint8", 1},      {3, "int8", 1},
                                  {4, "uint16", 2},   {5, "int16", 2},      {6, "uint32", 4},
                                  {7, "int32", 4},    {8, "uint64", 8},     {9, "int64", 8},
                                  {10, "float16", 2}, {11, "bfloat16", 2},  {12, "float32", 4},
                                  {13, "float64", 8}, {14, "complex64", 8}, {15, "complex128", 16}};

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
    if (number >= 1 && number <= 15) continue;
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
