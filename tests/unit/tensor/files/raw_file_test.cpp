#include "tensorbus/tensor/files/raw_file.hpp"

#include <gtest/gtest.h>

#include "tests/unit/platform/test_support.hpp"

namespace tensorbus::tensor {
namespace {

using test::error_of;

Dims shape_in(const FileOptions& options, std::size_t bytes) {
  return raw_contents(options, bytes).tensors.at(0).layout->shape;
}

TEST(RawFile, has_as_many_elements_as_there_are_bytes_for) {
  EXPECT_EQ(shape_in({.dtype = DType::kFloat32}, 24), Dims({6}));
  EXPECT_EQ(shape_in({.dtype = DType::kFloat32, .shape = Dims{-1, 3}}, 24), Dims({2, 3}));
  EXPECT_EQ(shape_in({.dtype = DType::kFloat32, .shape = Dims{3, -1}, .offset = 12}, 24),
            Dims({3, 1}));
  EXPECT_EQ(shape_in({.dtype = DType::kUInt8}, 0), Dims({0}));
  EXPECT_EQ(shape_in({.dtype = DType::kFloat64, .shape = Dims{}}, 24), Dims());
}

TEST(RawFile, says_where_its_tensor_lies) {
  const FileContents contents =
      raw_contents({.dtype = DType::kInt16, .shape = Dims{2, 2}, .offset = 3}, 100);
  EXPECT_EQ(contents.start, 3U);
  EXPECT_EQ(contents.bytes, 8U);
  EXPECT_FALSE(contents.named);
  EXPECT_EQ(contents.tensors.at(0).offset, 0U);
}

TEST(RawFile, is_refused_where_sizes_make_no_sense) {
  for (const FileOptions& options :
       {FileOptions{}, FileOptions{.shape = Dims{3}},
        FileOptions{.dtype = DType::kInt32, .offset = 25},
        FileOptions{.dtype = DType::kInt32, .shape = Dims{-1, 5}},
        FileOptions{.dtype = DType::kInt32, .shape = Dims{-1, -1}},
        FileOptions{.dtype = DType::kInt32, .shape = Dims{-1, 0}},
        FileOptions{.dtype = DType::kInt32, .shape = Dims{-2}},
        FileOptions{.dtype = DType::kInt32, .shape = Dims{INT64_MAX, -1}},
        FileOptions{.dtype = DType::kInt32, .shape = Dims{INT64_MAX, INT64_MAX}},
        FileOptions{.dtype = static_cast<DType>(200)}})
    EXPECT_EQ(error_of([&] { (void)raw_contents(options, 24); }), "InvalidArgument");
}

TEST(RawFile, that_is_made_needs_all_sizes) {
  EXPECT_EQ(planned_layout({.dtype = DType::kInt8, .shape = Dims{2, 0}}).shape, Dims({2, 0}));
  for (const FileOptions& options :
       {FileOptions{.shape = Dims{3}}, FileOptions{.dtype = DType::kInt8},
        FileOptions{.dtype = DType::kInt8, .shape = Dims{-1}}})
    EXPECT_EQ(error_of([&] { (void)planned_layout(options); }), "InvalidArgument");
}

TEST(RawFile, names_sizes_as_python_does) {
  EXPECT_EQ(text_of({}), "()");
  EXPECT_EQ(text_of({3}), "(3,)");
  EXPECT_EQ(text_of({3, -1}), "(3, -1)");
}

}  // namespace
}  // namespace tensorbus::tensor
