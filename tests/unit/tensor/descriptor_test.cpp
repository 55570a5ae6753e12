#include "tensorbus/tensor/descriptor.hpp"

#include <gtest/gtest.h>

#include <random>
#include <tensorbus/values/value.hpp>
#include <vector>

#include "tensorbus/memory/host/arena.hpp"
#include "tests/unit/platform/test_support.hpp"

namespace tensorbus::tensor {
namespace {

using Bytes = std::vector<std::byte>;

Bytes encoded(const Descriptor& descriptor) {
  Bytes bytes(descriptor.encoded_bytes());
  descriptor.encode(bytes);
  return bytes;
}

std::string outcome_of(std::span<const std::byte> bytes) {
  return test::error_of([&] { (void)Descriptor::decode(bytes); });
}

void expect_equal(const Descriptor& a, const Descriptor& b) {
  EXPECT_EQ(a.origin, b.origin);
  EXPECT_TRUE(std::equal(a.fields.begin(), a.fields.end(), b.fields.begin(), b.fields.end()));
  ASSERT_EQ(a.tensors.size(), b.tensors.size());
  for (std::size_t i = 0; i < a.tensors.size(); ++i) {
    const TensorEntry& left = a.tensors[i];
    const TensorEntry& right = b.tensors[i];
    EXPECT_EQ(left.layout.dtype, right.layout.dtype);
    EXPECT_EQ(left.layout.shape, right.layout.shape);
    EXPECT_EQ(left.layout.strides, right.layout.strides);
    EXPECT_EQ(left.layout.flags, right.layout.flags);
    EXPECT_EQ(left.kind, right.kind);
    EXPECT_EQ(left.segment, right.segment);
    EXPECT_EQ(left.offset, right.offset);
    EXPECT_EQ(left.generation, right.generation);
  }
}

const Bytes kFields = Value(Value::Map{{"image", TensorIndex{0}}, {"id", 7}}).encode();

// Everything that a descriptor can have.
Descriptor rich() {
  Descriptor descriptor;
  descriptor.fields = kFields;
  descriptor.origin = Origin{.host = *Id::parse("00112233445566778899aabbccddeeff"),
                             .writer = *Id::parse("ffeeddccbbaa99887766554433221100"),
                             .sequence = 0x0123456789abcdef};
  descriptor.tensors = {{.layout = Layout::contiguous(DType::kFloat32, {480, 640, 3}),
                         .segment = 3,
                         .offset = 4096,
                         .generation = 77},
                        {.layout = {DType::kComplex64,
                                    {4, 5},
                                    {-5, 1},
                                    TensorFlags::kFromTorch | TensorFlags::kConjugate},
                         .segment = 0xffffffff,
                         .offset = 0xfedcba9876543210,
                         .generation = ~std::uint64_t{0}},
                        {.layout = Layout::contiguous(DType::kBool, {})},
                        {.layout = {DType::kInt8, {1, 2, 1, 3, 1, 2, 1}, {0, 1, 0, -2, 0, 7, 0}}}};
  return descriptor;
}

TEST(Descriptor, is_read_back_as_it_was_written) {
  const Descriptor descriptor = rich();
  const Bytes bytes = encoded(descriptor);
  expect_equal(Descriptor::decode(bytes), descriptor);
  expect_equal(Descriptor::decode(encoded(Descriptor{})), Descriptor{});
}

TEST(Descriptor, has_room_for_as_many_dimensions_as_a_tensor_may_have) {
  Descriptor descriptor;
  descriptor.tensors = {{.layout = {DType::kInt8, Dims(kMaxDims), Dims(kMaxDims)}}};
  expect_equal(Descriptor::decode(encoded(descriptor)), descriptor);
}

TEST(Descriptor, points_its_fields_into_the_bytes_it_was_read_from) {
  const Bytes bytes = encoded(rich());
  const Descriptor descriptor = Descriptor::decode(bytes);
  EXPECT_EQ(descriptor.fields.data() + descriptor.fields.size(), bytes.data() + bytes.size());
}

TEST(Descriptor, of_one_contiguous_image_rides_in_the_entry) {
  const Bytes fields = Value(TensorIndex{0}).encode();
  Descriptor descriptor;
  descriptor.fields = fields;
  descriptor.tensors = {{.layout = Layout::contiguous(DType::kUInt8, {1080, 1920, 3})}};
  EXPECT_LE(descriptor.encoded_bytes(), 64U);
}

TEST(Descriptor, of_one_contiguous_tensor_of_eight_dimensions_rides_in_the_entry) {
  const Layout layout = Layout::contiguous(DType::kFloat32, {2, 3, 1, 4, 1, 0x7fffffff, 1, 2});
  EXPECT_EQ(encoded_bytes_alone(layout), 64U);
  EXPECT_EQ(encoded_bytes_alone(Layout::contiguous(DType::kUInt8, {5, 4, 3, 2, 1})), 52U);
}

TEST(Descriptor, has_64_bits_for_sizes_and_strides_that_need_them) {
  constexpr std::int64_t kTooLarge = std::int64_t{1} << 31;
  const std::vector<Layout> layouts = {
      Layout::contiguous(DType::kUInt8, {kTooLarge - 1, 2}),
      Layout::contiguous(DType::kUInt8, {kTooLarge, 2}),
      Layout::contiguous(DType::kUInt8, {2, kTooLarge, 0}),
      {DType::kUInt8, {2, 2}, {kTooLarge, 1}},
      {DType::kUInt8, {2, 2}, {-kTooLarge, 1}},
      {DType::kUInt8, {2, 2}, {-kTooLarge - 1, 1}},
      {DType::kUInt8, {3, 2}, {-2, 1}, TensorFlags::kFromTorch | TensorFlags::kNegative},
  };
  const std::vector<std::size_t> widths = {4, 8, 8, 8, 4, 8, 4};
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    Descriptor descriptor;
    descriptor.tensors = {{.layout = layouts[i], .segment = 1, .offset = 2, .generation = 3}};
    const Bytes bytes = encoded(descriptor);
    const std::size_t values = layouts[i].shape.size() * (layouts[i].is_contiguous() ? 1 : 2);
    EXPECT_EQ(bytes.size(), 32 + values * widths[i]) << i;
    expect_equal(Descriptor::decode(bytes), descriptor);
    Layout alone;
    EXPECT_EQ(decode_alone(bytes, alone).has_value(), layouts[i].is_contiguous()) << i;
    if (layouts[i].is_contiguous()) {
      EXPECT_EQ(alone, layouts[i]) << i;
    }
  }
}

TEST(Descriptor, with_negative_sizes_of_32_bits_is_refused) {
  Descriptor descriptor;
  descriptor.tensors = {{.layout = Layout::contiguous(DType::kUInt8, {5})}};
  Bytes bytes = encoded(descriptor);
  bytes.back() = std::byte{0xff};
  EXPECT_EQ(outcome_of(bytes), "Protocol");
  Layout layout;
  EXPECT_FALSE(decode_alone(bytes, layout));
}

TEST(LoneTensors, are_those_that_differ_in_their_place_alone) {
  const LoneTensors rows(DType::kFloat32, {7}, TensorFlags::kConjugate | TensorFlags::kNegative);
  const auto found = [&](const Layout& layout, memory::BufferKind kind = memory::BufferKind::kHost,
                         std::span<const std::byte> fields = {}) {
    Descriptor descriptor;
    descriptor.fields = fields;
    descriptor.tensors = {
        {.layout = layout, .kind = kind, .segment = 5, .offset = 600, .generation = 7}};
    return rows.find(encoded(descriptor));
  };
  const auto lone = found(Layout::contiguous(DType::kFloat32, {7}, TensorFlags::kFromTorch));
  ASSERT_TRUE(lone);
  EXPECT_EQ(lone->segment, 5U);
  EXPECT_EQ(lone->offset, 600U);
  EXPECT_EQ(lone->generation, 7U);
  EXPECT_EQ(lone->bytes, 28U);
  EXPECT_FALSE(found(Layout::contiguous(DType::kInt32, {7})));
  EXPECT_FALSE(found(Layout::contiguous(DType::kFloat32, {6})));
  EXPECT_FALSE(found(Layout::contiguous(DType::kFloat32, {7, 1})));
  EXPECT_FALSE(found({DType::kFloat32, {7}, {2}}));
  EXPECT_FALSE(found(Layout::contiguous(DType::kFloat32, {7}, TensorFlags::kNegative)));
  EXPECT_FALSE(found(Layout::contiguous(DType::kFloat32, {7}), memory::BufferKind::kFile));
  EXPECT_FALSE(found(Layout::contiguous(DType::kFloat32, {7}), memory::BufferKind::kHost, kFields));
  EXPECT_FALSE(rows.find({}));
}

TEST(Descriptor, has_the_layout_that_the_protocol_says) {
  const Bytes fields(1, std::byte{0xc0});
  Descriptor descriptor;
  descriptor.fields = fields;
  descriptor.tensors = {{.layout = {DType::kInt16, {2}, {3}, TensorFlags::kFromNumpy},
                         .segment = 5,
                         .offset = 0x0102,
                         .generation = 9}};
  const unsigned char expected[] = {
      1,   0, 1, 0,   1, 0, 0, 0,  // version, flags, tensors, field bytes
      5,   1, 0, 136, 5, 0, 0, 0,
      2,   1, 0, 0,   0, 0, 0, 0,  // dtype, ndim, kind, flags, segment, offset
      9,   0, 0, 0,   0, 0, 0, 0,  // generation
      2,   0, 0, 0,   3, 0, 0, 0,  // shape, strides
      0xc0};
  const auto bytes = std::as_bytes(std::span(expected));
  EXPECT_EQ(encoded(descriptor), Bytes(bytes.begin(), bytes.end()));
}

TEST(Descriptor, that_is_cut_short_is_refused_at_every_length) {
  const Bytes bytes = encoded(rich());
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    const Bytes cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(length));
    ASSERT_EQ(outcome_of(cut), "Protocol") << length;
  }
  Bytes longer = bytes;
  longer.push_back(std::byte{0});
  EXPECT_EQ(outcome_of(longer), "Protocol");
}

// What decode() let through must be something the rest of the library can work with.
void expect_valid(const Descriptor& descriptor) {
  for (const TensorEntry& entry : descriptor.tensors) {
    ASSERT_LE(entry.layout.shape.size(), kMaxDims);
    ASSERT_EQ(entry.layout.shape.size(), entry.layout.strides.size());
    ASSERT_LE(entry.kind, memory::BufferKind::kFile);
    ASSERT_NE(item_bytes(entry.layout.dtype), 0U);
    ASSERT_NO_THROW(span_of(entry.layout));
    ASSERT_NO_THROW(span_of(layout_of_copy(entry.layout)));
  }
  const Bytes again = encoded(descriptor);
  expect_equal(Descriptor::decode(again), descriptor);
}

// decode_alone() reads nothing but what decode() finds to be that.
void expect_same_alone(const Bytes& bytes) {
  Layout layout;
  const auto lone = decode_alone(bytes, layout);
  if (!lone) return;
  const Descriptor whole = Descriptor::decode(bytes);
  Descriptor alone;
  alone.tensors = {{.layout = layout,
                    .segment = lone->segment,
                    .offset = lone->offset,
                    .generation = lone->generation}};
  expect_equal(whole, alone);
  EXPECT_TRUE(whole.owners.empty());
  EXPECT_EQ(lone->bytes, span_of(layout).bytes());
}

void expect_valid_or_refused(const Bytes& bytes, int& accepted) {
  ASSERT_NO_THROW(expect_same_alone(bytes));
  try {
    const Descriptor descriptor = Descriptor::decode(bytes);
    ++accepted;
    expect_valid(descriptor);
  } catch (const Error& error) {
    ASSERT_EQ(error.code(), Code::kProtocol) << error.what();
  }
}

TEST(Descriptor, with_any_one_byte_changed_is_valid_or_refused) {
  const Bytes good = encoded(rich());
  int accepted = 0;
  for (std::size_t at = 0; at < good.size(); ++at)
    for (int value = 0; value < 256; ++value) {
      Bytes bytes = good;
      bytes[at] = static_cast<std::byte>(value);
      expect_valid_or_refused(bytes, accepted);
      if (::testing::Test::HasFatalFailure()) FAIL() << "byte " << at << " = " << value;
    }
  EXPECT_GT(accepted, 0);
}

TEST(Descriptor, of_a_tensor_alone_is_the_same_by_the_short_way) {
  const auto arena = memory::Arena::create({.segment_bytes = 1 << 20, .budget_bytes = 1 << 20});
  const memory::BlockRef unused = arena->allocate(1000);
  const memory::BlockRef block = arena->allocate(1000);
  for (const Layout& layout :
       {Layout::contiguous(DType::kFloat16, {}), Layout::contiguous(DType::kInt8, {0, 2}),
        Layout::contiguous(DType::kInt64, {5, 4, 3}, TensorFlags::kFromTorch),
        Layout::contiguous(DType::kFloat32, {1, 3, 4, 5})}) {
    Bytes bytes(64);
    bytes.resize(encode_alone(layout, *block, 24, bytes));
    Descriptor descriptor;
    descriptor.tensors = {{.layout = layout,
                           .segment = block->segment(),
                           .offset = block->offset() + 24,
                           .generation = block->generation()}};
    EXPECT_EQ(bytes, encoded(descriptor));
    Layout read;
    ASSERT_TRUE(decode_alone(bytes, read));
    EXPECT_EQ(read, layout);
    expect_same_alone(bytes);
    for (std::size_t at = 0; at < bytes.size(); ++at)
      for (int bit = 0; bit < 8; ++bit) {
        Bytes wrong = bytes;
        wrong[at] ^= static_cast<std::byte>(1 << bit);
        ASSERT_NO_THROW(expect_same_alone(wrong)) << at;
      }
    for (std::size_t length = 0; length < bytes.size(); ++length) {
      Layout ignored;
      EXPECT_FALSE(decode_alone(std::span(bytes).first(length), ignored)) << length;
    }
  }
}

TEST(Descriptor, of_a_tensor_alone_goes_where_there_is_room_for_it) {
  const auto arena = memory::Arena::create({.segment_bytes = 1 << 20, .budget_bytes = 1 << 20});
  const memory::BlockRef block = arena->allocate(1000);
  const Layout columns{DType::kUInt8, {4, 2}, {1, 4}};
  Bytes bytes(64);
  EXPECT_EQ(encode_alone(columns, *block, 0, bytes), 48U);
  EXPECT_EQ(encode_alone(columns, *block, 0, std::span(bytes).first(47)), 0U);
}

TEST(Descriptor, of_random_bytes_is_valid_or_refused) {
  std::mt19937 random(7);
  int accepted = 0;
  for (int i = 0; i < 50'000; ++i) {
    Bytes bytes(8 + random() % 100);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() % 5 == 0 ? random() : 0);
    bytes[0] = std::byte{1};
    bytes[2] = static_cast<std::byte>(random() % 3);
    if (bytes.size() > 12) bytes[8] = static_cast<std::byte>(random() % 16);
    expect_valid_or_refused(bytes, accepted);
    if (::testing::Test::HasFatalFailure()) return;
  }
  EXPECT_GT(accepted, 0);
}

TEST(Descriptor, refuses_what_it_does_not_know_and_names_it) {
  const auto refusal = [](std::size_t at, int value) {
    Descriptor descriptor;
    descriptor.tensors = {{.layout = {DType::kInt8, {2}, {3}}}};
    Bytes bytes = encoded(descriptor);
    bytes[at] = static_cast<std::byte>(value);
    std::string message;
    const std::string code = test::error_of([&] { (void)Descriptor::decode(bytes); }, &message);
    return code + ": " + message;
  };
  EXPECT_EQ(refusal(0, 2), "Protocol: sample.descriptor: version 2, expected 1");
  EXPECT_EQ(refusal(3, 200), "Protocol: sample.descriptor: more tensors than bytes");
  EXPECT_EQ(refusal(8, 99), "Protocol: sample.descriptor: tensor: unknown dtype number 99");
  EXPECT_EQ(refusal(9, 65), "Protocol: sample.descriptor: 65 dimensions");
  EXPECT_EQ(refusal(10, 3), "Protocol: sample.descriptor: buffer kind 3 is not known here");
  EXPECT_EQ(refusal(35, 0x80).substr(0, 51), "Protocol: sample.descriptor: tensor: negative size ");
}

}  // namespace
}  // namespace tensorbus::tensor
