#include "tensorbus/tensor/layout.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

#include "tests/unit/platform/test_support.hpp"

namespace tensorbus::tensor {
namespace {

constexpr std::int64_t kHugeSize = std::numeric_limits<std::int64_t>::max();

Layout strided(DType dtype, Dims shape, Dims strides) {
  return {dtype, std::move(shape), std::move(strides)};
}

std::pair<std::int64_t, std::int64_t> span(const Layout& layout) {
  const ByteSpan bytes = span_of(layout);
  return {bytes.begin, bytes.end};
}

std::string refusal_of(const Layout& layout) {
  std::string message;
  const std::string code = test::error_of([&] { span_of(layout); }, &message);
  return code + ": " + message;
}

using Span = std::pair<std::int64_t, std::int64_t>;

TEST(Layout, is_row_major_without_gaps_when_contiguous) {
  const Layout layout = Layout::contiguous(DType::kFloat32, {2, 3, 4});
  EXPECT_EQ(layout.strides, (Dims{12, 4, 1}));
  EXPECT_TRUE(layout.is_contiguous());
  EXPECT_EQ(layout.elements(), 24U);
  EXPECT_EQ(layout.packed_bytes(), 96U);
  EXPECT_EQ(span(layout), (Span{0, 96}));
}

TEST(Layout, of_no_dimensions_is_one_element) {
  const Layout layout = Layout::contiguous(DType::kComplex128, {});
  EXPECT_EQ(layout.elements(), 1U);
  EXPECT_TRUE(layout.is_contiguous());
  EXPECT_EQ(span(layout), (Span{0, 16}));
}

TEST(Layout, with_a_size_of_zero_touches_nothing) {
  const Layout layout = Layout::contiguous(DType::kFloat32, {3, 0, 2});
  EXPECT_EQ(layout.strides, (Dims{2, 2, 1}));
  EXPECT_EQ(layout.elements(), 0U);
  EXPECT_EQ(span(layout), (Span{0, 0}));
  EXPECT_EQ(span(strided(DType::kInt8, {5, 0}, {-100, kHugeSize})), (Span{0, 0}));
}

TEST(Layout, keeps_its_flags) {
  const auto flags = TensorFlags::kFromTorch | TensorFlags::kConjugate;
  const Layout layout = Layout::contiguous(DType::kComplex64, {2}, flags);
  EXPECT_EQ(layout.flags, flags);
  EXPECT_TRUE(has(layout.flags, TensorFlags::kConjugate));
  EXPECT_FALSE(has(layout.flags, TensorFlags::kNegative));
}

TEST(Layout, is_contiguous_only_with_the_strides_that_contiguous_writes) {
  EXPECT_FALSE(strided(DType::kInt8, {2, 3}, {1, 2}).is_contiguous());
  EXPECT_FALSE(strided(DType::kInt8, {2, 3}, {4, 1}).is_contiguous());
  EXPECT_FALSE(strided(DType::kInt8, {1, 3}, {7, 1}).is_contiguous());
  EXPECT_FALSE(strided(DType::kInt8, {2}, {-1}).is_contiguous());
}

TEST(SpanOf, reaches_back_for_negative_strides) {
  EXPECT_EQ(span(strided(DType::kInt32, {5}, {-1})), (Span{-16, 4}));
  EXPECT_EQ(span(strided(DType::kInt32, {3, 4}, {-10, 2})), (Span{-80, 28}));
  EXPECT_EQ(span(strided(DType::kInt16, {3, 4}, {0, 0})), (Span{0, 2}));
  EXPECT_EQ(span(strided(DType::kInt16, {1}, {kHugeSize})), (Span{0, 2}));
}

TEST(SpanOf, refuses_what_is_no_layout_and_says_why) {
  EXPECT_EQ(refusal_of(strided(static_cast<DType>(0), {1}, {1})),
            "InvalidArgument: tensor: unknown dtype number 0");
  EXPECT_EQ(refusal_of(strided(static_cast<DType>(200), {1}, {1})),
            "InvalidArgument: tensor: unknown dtype number 200");
  EXPECT_EQ(refusal_of(strided(DType::kInt8, {1, 2}, {1})),
            "InvalidArgument: tensor: expected as many strides as sizes");
  EXPECT_EQ(refusal_of(strided(DType::kInt8, {2, -3}, {1, 1})),
            "InvalidArgument: tensor: negative size -3");
  EXPECT_EQ(refusal_of(strided(DType::kInt8, Dims(65), Dims(65))),
            "InvalidArgument: tensor: 65 dimensions, more than 64");
  EXPECT_EQ(refusal_of(strided(DType::kInt8, Dims(64), Dims(64))), "nothing thrown: ");
}

TEST(SpanOf, refuses_every_way_to_reach_beyond_63_bits) {
  const std::string beyond = "InvalidArgument: tensor: shape and strides reach beyond 2^62 bytes";
  const std::int64_t big = std::int64_t{1} << 40;
  for (const Layout& layout : {
           strided(DType::kInt8, {kHugeSize}, {1}),
           strided(DType::kInt8, {kHugeSize}, {0}),
           strided(DType::kInt8, {big, big}, {0, 0}),
           strided(DType::kInt8, {0, big, big}, {0, 0, 0}),
           strided(DType::kFloat64, {std::int64_t{1} << 60}, {1}),
           strided(DType::kInt8, {2}, {kHugeSize}),
           strided(DType::kInt8, {2}, {std::numeric_limits<std::int64_t>::min()}),
           strided(DType::kInt8, {3}, {std::numeric_limits<std::int64_t>::min()}),
           strided(DType::kFloat64, {2}, {std::int64_t{1} << 60}),
           strided(DType::kInt8, {2, 2}, {kHugeSize / 2, kHugeSize / 2}),
           strided(DType::kInt8, {2, 2}, {-kHugeSize / 2, -kHugeSize / 2}),
       })
    EXPECT_EQ(refusal_of(layout), beyond);
  const auto contiguous = [&](Dims shape) {
    return test::error_of([&] { Layout::contiguous(DType::kInt8, shape); });
  };
  EXPECT_EQ(contiguous({big, big}), "InvalidArgument");
  EXPECT_EQ(contiguous({kHugeSize}), "InvalidArgument");
  EXPECT_EQ(contiguous({-1}), "InvalidArgument");
  EXPECT_EQ(contiguous(Dims(65)), "InvalidArgument");
}

// Calls visit(offset in elements) for each element, in row-major order.
template <typename Visit>
void for_each_element(const Layout& layout, Visit visit) {
  const auto walk = [&](const auto& self, std::size_t axis, std::int64_t offset) -> void {
    if (axis == layout.shape.size()) return visit(offset);
    for (std::int64_t i = 0; i < layout.shape[axis]; ++i)
      self(self, axis + 1, offset + i * layout.strides[axis]);
  };
  walk(walk, 0, 0);
}

Layout random_layout(std::mt19937& random) {
  const DType dtypes[] = {DType::kInt8, DType::kInt16, DType::kFloat32, DType::kComplex128};
  const std::size_t count = random() % 5;
  Layout layout{dtypes[random() % 4], Dims(count), Dims(count)};
  for (std::size_t i = 0; i < count; ++i) {
    layout.shape[i] = random() % 5;
    layout.strides[i] = static_cast<std::int64_t>(random() % 13) - 6;
  }
  if (random() % 3 == 0 && count > 1) {  // a permutation of a contiguous one, as transposing does
    layout.strides = Layout::contiguous(layout.dtype, layout.shape).strides;
    const std::size_t a = random() % count;
    const std::size_t b = random() % count;
    std::swap(layout.shape[a], layout.shape[b]);
    std::swap(layout.strides[a], layout.strides[b]);
  }
  return layout;
}

TEST(SpanOf, is_what_the_elements_touch) {
  std::mt19937 random(4);
  for (int i = 0; i < 2000; ++i) {
    const Layout layout = random_layout(random);
    const auto item = static_cast<std::int64_t>(item_bytes(layout.dtype));
    Span expected{0, 0};
    std::size_t elements = 0;
    for_each_element(layout, [&](std::int64_t offset) {
      expected.first = std::min(expected.first, offset * item);
      expected.second = std::max(expected.second, (offset + 1) * item);
      ++elements;
    });
    ASSERT_EQ(span(layout), expected);
    ASSERT_EQ(layout.elements(), elements);
  }
}

TEST(Copy, keeps_the_layout_unless_its_holes_cost_too_much) {
  const auto strides_of_copy = [](Dims shape, Dims strides) {
    return layout_of_copy(strided(DType::kInt16, std::move(shape), std::move(strides))).strides;
  };
  EXPECT_EQ(strides_of_copy({2, 3}, {1, 2}), (Dims{1, 2})) << "transposed";
  EXPECT_EQ(strides_of_copy({4}, {-1}), (Dims{-1})) << "flipped";
  EXPECT_EQ(strides_of_copy({1000, 3}, {0, 1}), (Dims{0, 1})) << "expanded";
  EXPECT_EQ(strides_of_copy({2, 3}, {4, 1}), (Dims{4, 1})) << "a slice of columns";
  EXPECT_EQ(strides_of_copy({4}, {1000}), (Dims{1000})) << "far apart, but small";
  EXPECT_EQ(strides_of_copy({1000, 1000}, {4000, 4}), (Dims{4000, 4})) << "every fourth element";
  EXPECT_EQ(strides_of_copy({1000, 1000}, {5000, 5}), (Dims{1000, 1})) << "every fifth element";
  EXPECT_EQ(strides_of_copy({100000}, {-1000}), (Dims{1})) << "a column, upwards";
  EXPECT_EQ(layout_of_copy({DType::kInt8, {100000}, {9}, TensorFlags::kNegative}).flags,
            TensorFlags::kNegative);
}

TEST(Copy, has_the_elements_of_the_source) {
  std::mt19937 random(5);
  for (int i = 0; i < 4000; ++i) {
    const Layout layout = random_layout(random);
    const std::size_t item = item_bytes(layout.dtype);
    const ByteSpan from = span_of(layout);
    std::vector<std::byte> source(from.bytes());  // exactly: a sanitizer sees what reads beyond
    for (std::byte& byte : source) byte = static_cast<std::byte>(random());
    const Layout copy =
        i % 2 == 0 ? layout_of_copy(layout) : Layout::contiguous(layout.dtype, layout.shape);
    const ByteSpan to = span_of(copy);
    std::vector<std::byte> target(to.bytes());
    copy_elements(target.data() - to.begin, copy, source.data() - from.begin, layout,
                  i % 4 < 2 ? Stores::kOrdinary : Stores::kNonTemporal);

    std::vector<std::byte> expected;
    std::vector<std::byte> copied;
    for_each_element(layout, [&](std::int64_t offset) {
      const std::byte* at = source.data() - from.begin + offset * static_cast<std::int64_t>(item);
      expected.insert(expected.end(), at, at + item);
    });
    for_each_element(copy, [&](std::int64_t offset) {
      const auto place =
          static_cast<std::size_t>(offset * static_cast<std::int64_t>(item) - to.begin);
      copied.insert(copied.end(), target.begin() + static_cast<std::ptrdiff_t>(place),
                    target.begin() + static_cast<std::ptrdiff_t>(place + item));
    });
    ASSERT_EQ(copied, expected);
  }
}

TEST(Copy, of_a_size_that_several_cores_share_is_whole) {
  const std::size_t bytes = (std::size_t{16} << 20) + 12'345;
  const Layout layout = Layout::contiguous(DType::kUInt8, {static_cast<std::int64_t>(bytes)});
  std::vector<std::byte> source(bytes);
  std::mt19937 random(7);
  for (std::byte& byte : source) byte = static_cast<std::byte>(random());
  for (const Stores stores : {Stores::kOrdinary, Stores::kNonTemporal}) {
    std::vector<std::byte> target(bytes);
    copy_elements(target.data(), layout, source.data(), layout, stores);
    EXPECT_EQ(target, source);
  }
}

// Such a stride is never taken, so that it may be anything; a sanitizer sees one that is.
TEST(Copy, does_not_look_at_the_stride_of_a_single_element) {
  constexpr std::int64_t kWild = std::numeric_limits<std::int64_t>::max() / 2 + 1;
  const Layout layout{DType::kUInt32, {1, 2, 1}, {kWild, 4, -kWild}};
  const std::vector<std::uint32_t> source = {1, 0, 0, 0, 2};
  std::vector<std::uint32_t> target(2);
  copy_elements(reinterpret_cast<std::byte*>(target.data()),
                Layout::contiguous(layout.dtype, layout.shape),
                reinterpret_cast<const std::byte*>(source.data()), layout, Stores::kOrdinary);
  EXPECT_EQ(target, (std::vector<std::uint32_t>{1, 2}));
}

}  // namespace
}  // namespace tensorbus::tensor
