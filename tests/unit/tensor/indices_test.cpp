#include "tensorbus/tensor/indices.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "tests/unit/platform/test_support.hpp"

namespace tensorbus::tensor {
namespace {

constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();

// What they are checked in: numbers of either width.
template <typename Number>
struct Numbers {
  std::vector<Number> values;
  operator Indices() const {  // NOLINT(google-explicit-constructor)
    return {reinterpret_cast<const std::byte*>(values.data()), values.size(), sizeof(Number) == 8};
  }
};
using Longs = Numbers<std::int64_t>;
using Ints = Numbers<std::int32_t>;
using Sizes = std::vector<std::int64_t>;

template <typename Check>
std::string refusal(Check check) {
  std::string why;
  const std::string code = test::error_of(check, &why);
  EXPECT_TRUE(code == "nothing thrown" || code == "Protocol") << code << why;
  return why;
}

std::string coordinates(const Longs& indices, const Sizes& sizes, std::size_t count,
                        bool coalesced = false) {
  return refusal([&] { check_coordinates(indices, sizes, count, coalesced); });
}

TEST(Coordinates, are_inside_their_sizes) {
  EXPECT_EQ(coordinates({{0, 1, 2, 4}}, {3, 5}, 2), "");
  EXPECT_EQ(coordinates({{}}, {3, 5}, 0), "");
  EXPECT_NE(coordinates({{0, 3, 2, 4}}, {3, 5}, 2), "");
  EXPECT_NE(coordinates({{0, 1, 2, 5}}, {3, 5}, 2), "");
  EXPECT_NE(coordinates({{-1}}, {3}, 1), "");
  EXPECT_NE(coordinates({{kHuge}}, {3}, 1), "");
  EXPECT_NE(coordinates({{kMin}}, {3}, 1), "");
  EXPECT_NE(coordinates({{0}}, {0}, 1), "");
  EXPECT_NE(coordinates({{0, 1, 2}}, {3, 5}, 2), "") << "too few";
  EXPECT_NE(coordinates({{}}, {3, 5, 1, 1}, std::size_t{1} << 62), "") << "2^64 indices";
}

TEST(Coordinates, that_are_coalesced_are_in_order_each_once) {
  EXPECT_EQ(coordinates({{0, 0, 1, 0, 2, 0}}, {3, 5}, 3, true), "");
  EXPECT_NE(coordinates({{0, 0, 1, 2, 0, 0}}, {3, 5}, 3, true), "");
  EXPECT_NE(coordinates({{1, 1, 2, 2}}, {3, 5}, 2, true), "");
  EXPECT_EQ(coordinates({{1, 1, 2, 2}}, {3, 5}, 2, false), "");
  EXPECT_NE(coordinates({{}}, {}, 2, true), "") << "two elements in no dimension";
  EXPECT_EQ(coordinates({{}}, {}, 1, true), "");
}

template <typename Number>
std::string compressed(const Numbers<Number>& begins, const Numbers<Number>& columns,
                       std::size_t batches, std::int64_t size) {
  return refusal([&] { check_compressed(begins, columns, batches, size); });
}

TEST(Compressed, rows_begin_where_the_one_before_ends) {
  EXPECT_EQ(compressed<std::int64_t>({{0, 2, 2, 3}}, {{0, 3, 1}}, 1, 4), "");
  EXPECT_EQ(compressed<std::int32_t>({{0, 2, 2, 3}}, {{0, 3, 1}}, 1, 4), "");
  EXPECT_EQ(compressed<std::int64_t>({{0}}, {{}}, 1, 4), "") << "no rows";
  EXPECT_NE(compressed<std::int64_t>({{1, 2, 2, 3}}, {{0, 3, 1}}, 1, 4), "");
  EXPECT_NE(compressed<std::int64_t>({{0, 2, 1, 3}}, {{0, 3, 1}}, 1, 4), "");
  EXPECT_NE(compressed<std::int64_t>({{0, 2, 2, 4}}, {{0, 3, 1}}, 1, 4), "");
  EXPECT_NE(compressed<std::int64_t>({{0, kHuge, 2, 3}}, {{0, 3, 1}}, 1, 4), "");
  EXPECT_NE(compressed<std::int64_t>({{0, kMin, 2, 3}}, {{0, 3, 1}}, 1, 4), "");
  EXPECT_NE(compressed<std::int32_t>({{0, -1, 2, 3}}, {{0, 3, 1}}, 1, 4), "");
  EXPECT_NE(compressed<std::int64_t>({{}}, {{}}, 1, 4), "") << "not even a beginning";
  EXPECT_NE(compressed<std::int64_t>({{}}, {{0}}, 0, 4), "") << "columns of no batch";
}

TEST(Compressed, columns_are_in_any_order_and_inside) {
  EXPECT_EQ(compressed<std::int64_t>({{0, 2}}, {{3, 0}}, 1, 4), "");
  EXPECT_EQ(compressed<std::int64_t>({{0, 2}}, {{3, 3}}, 1, 4), "");
  EXPECT_NE(compressed<std::int64_t>({{0, 2}}, {{3, 4}}, 1, 4), "");
  EXPECT_NE(compressed<std::int64_t>({{0, 2}}, {{-1, 3}}, 1, 4), "");
  EXPECT_EQ(compressed<std::int64_t>({{0, 1, 2}}, {{3, 0}}, 1, 4), "") << "in rows of their own";
}

TEST(Compressed, batches_are_checked_each) {
  EXPECT_EQ(compressed<std::int64_t>({{0, 1, 2, 0, 0, 2}}, {{3, 0, 1, 2}}, 2, 4), "");
  EXPECT_NE(compressed<std::int64_t>({{0, 1, 2, 0, 0, 2}}, {{3, 0, 1, 4}}, 2, 4), "");
  EXPECT_NE(compressed<std::int64_t>({{0, 1, 2, 0, 0, 1}}, {{3, 0, 1, 2}}, 2, 4), "");
  EXPECT_NE(compressed<std::int64_t>({{0, 1, 2, 0, 0}}, {{3, 0, 1, 2}}, 2, 4), "") << "too few";
  EXPECT_EQ(compressed<std::int64_t>({{}}, {{}}, 0, 4), "");
}

TEST(Jagged, parts_are_inside_their_rows) {
  const auto jagged = [](const Longs& offsets, std::int64_t rows) {
    return refusal([&] { check_jagged(offsets, nullptr, rows); });
  };
  EXPECT_EQ(jagged({{0, 2, 2, 5}}, 5), "");
  EXPECT_EQ(jagged({{0}}, 0), "");
  EXPECT_EQ(jagged({{}}, 0), "");
  EXPECT_NE(jagged({{0, 2, 2, 6}}, 5), "");
  EXPECT_NE(jagged({{0, 3, 2, 5}}, 5), "");
  EXPECT_NE(jagged({{-1, 2}}, 5), "");
  EXPECT_NE(jagged({{kMin, kHuge}}, 5), "");
  EXPECT_NE(jagged({{1, kMin}}, 5), "");
  EXPECT_NE(jagged({{0, kHuge}}, 5), "");
}

TEST(Jagged, parts_with_lengths_are_inside_their_rows) {
  const auto jagged = [](const Longs& offsets, const Ints& lengths, std::int64_t rows) {
    const Indices known = lengths;
    return refusal([&] { check_jagged(offsets, &known, rows); });
  };
  EXPECT_EQ(jagged({{0, 4, 9}}, {{2, 3}}, 8), "");
  EXPECT_NE(jagged({{0, 4, 9}}, {{2, 5}}, 8), "");
  EXPECT_NE(jagged({{0, 4, 9}}, {{2, -1}}, 8), "");
  EXPECT_NE(jagged({{0, kHuge, 9}}, {{2, 1}}, 8), "");
  EXPECT_NE(jagged({{0, 4, 9}}, {{2}}, 8), "") << "too few";
  EXPECT_NE(jagged({{}}, {{}}, 8), "") << "lengths without offsets";
}

std::string nested(const Longs& sizes, const Longs& strides, const Longs& offsets,
                   std::int64_t elements) {
  return refusal([&] { check_nested(sizes, strides, offsets, elements); });
}

TEST(Nested, parts_are_inside_their_buffer) {
  EXPECT_EQ(nested({{2, 3, 1, 3}}, {{3, 1, 3, 1}}, {{0, 6}}, 9), "");
  EXPECT_NE(nested({{2, 3, 1, 3}}, {{3, 1, 3, 1}}, {{0, 6}}, 8), "");
  EXPECT_NE(nested({{2, 3, 1, 3}}, {{4, 1, 3, 1}}, {{3, 6}}, 9), "");
  EXPECT_NE(nested({{2}}, {{1}}, {{-1}}, 9), "");
  EXPECT_NE(nested({{2}}, {{-1}}, {{1}}, 9), "");
  EXPECT_NE(nested({{-2}}, {{1}}, {{1}}, 9), "");
  EXPECT_NE(nested({{kHuge}}, {{kHuge}}, {{1}}, 9), "");
  EXPECT_NE(nested({{kHuge, kHuge}}, {{1, 1}}, {{kHuge}}, 9), "");
  EXPECT_EQ(nested({{}}, {{}}, {{}}, 0), "") << "no parts";
  EXPECT_EQ(nested({{}}, {{}}, {{3, 4}}, 5), "") << "parts without dimensions: one element each";
  EXPECT_NE(nested({{}}, {{}}, {{3, 5}}, 5), "");
  EXPECT_NE(nested({{2, 3}}, {{1}}, {{0}}, 9), "") << "too few strides";
  EXPECT_NE(nested({{2, 3, 1}}, {{1, 1, 1}}, {{0, 1}}, 9), "") << "too few sizes";
}

TEST(Nested, empty_parts_may_be_at_the_end) {
  EXPECT_EQ(nested({{0, 3}}, {{3, 1}}, {{9}}, 9), "");
  EXPECT_NE(nested({{0, 3}}, {{3, 1}}, {{10}}, 9), "");
}

TEST(PrivateCopies, are_row_major_and_their_own) {
  std::vector<std::int64_t> numbers{0, 1, 2, 3, 4, 5};
  const auto copy = private_copy_of(reinterpret_cast<const std::byte*>(numbers.data()),
                                    {DType::kInt64, {3, 2}, {1, 3}});
  numbers.assign(6, kHuge);
  const Indices copied(copy.get(), 6, true);
  for (std::size_t i = 0; i < 6; ++i)
    EXPECT_EQ(copied[i], static_cast<std::int64_t>(i / 2 + 3 * (i % 2)));
}

}  // namespace
}  // namespace tensorbus::tensor
