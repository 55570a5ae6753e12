#include "tensorbus/tensor/files/npy_file.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "tests/unit/platform/test_support.hpp"
#include "tests/unit/tensor/files/file_test_support.hpp"

namespace tensorbus::tensor {
namespace {

using test::Content;
using test::error_of;

std::string little_endian(std::size_t number, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(number >> (8 * i) & 0xFF);
  return text;
}

std::string npy(const std::string& header, char major = 1) {
  return "\x93NUMPY" + std::string{major, '\0'} + little_endian(header.size(), major == 1 ? 2 : 4) +
         header;
}

std::string dict(const std::string& descr, const std::string& shape, bool fortran = false) {
  return "{'descr': '" + descr + "', 'fortran_order': " + (fortran ? "True" : "False") +
         ", 'shape': " + shape + ", }\n";
}

FileContents contents_of(const std::string& file, const FileOptions& options = {}) {
  return npy_contents(Content(file).bytes(), options);
}
Layout layout_of(const std::string& header, const FileOptions& options = {}) {
  return contents_of(npy(header), options).tensors.at(0).layout.value();
}

// What `header` is refused with, and whether the message has `part`.
void expect_refused(const std::string& file, const std::string& code, const std::string& part,
                    const FileOptions& options = {}) {
  std::string message;
  EXPECT_EQ(error_of([&] { (void)contents_of(file, options); }, &message), code) << file;
  EXPECT_NE(message.find(part), std::string::npos) << message;
}

TEST(NpyFile, of_every_version_says_where_its_tensor_lies) {
  for (const char version : {'\1', '\2', '\3'}) {
    const std::string file = npy(dict("<f4", "(2, 3)"), version);
    const FileContents contents = contents_of(file);
    EXPECT_EQ(contents.start, file.size());
    EXPECT_EQ(contents.bytes, 24U);
    EXPECT_EQ(contents.tensors.at(0).layout, Layout::contiguous(DType::kFloat32, {2, 3}));
  }
}

TEST(NpyFile, has_every_dtype_that_numpy_and_tensors_have) {
  for (const auto& [descr, dtype] : {std::pair{"|b1", DType::kBool},
                                     {"|u1", DType::kUInt8},
                                     {"|i1", DType::kInt8},
                                     {">i1", DType::kInt8},
                                     {"<u2", DType::kUInt16},
                                     {"<i2", DType::kInt16},
                                     {"<u4", DType::kUInt32},
                                     {"=i4", DType::kInt32},
                                     {"<u8", DType::kUInt64},
                                     {"i8", DType::kInt64},
                                     {"<f2", DType::kFloat16},
                                     {"<f4", DType::kFloat32},
                                     {"<f8", DType::kFloat64},
                                     {"<c8", DType::kComplex64},
                                     {"<c16", DType::kComplex128}})
    EXPECT_EQ(layout_of(dict(descr, "()")).dtype, dtype) << descr;
  EXPECT_EQ(layout_of(dict("|V2", "(4,)"), {.dtype = DType::kBFloat16}),
            Layout::contiguous(DType::kBFloat16, {4}));
}

TEST(NpyFile, is_written_by_python_in_any_order_and_with_any_blanks) {
  EXPECT_EQ(layout_of("{\"shape\":(5,),'fortran_order':False,\n 'descr' : '<f4'}   \n"),
            Layout::contiguous(DType::kFloat32, {5}));
  EXPECT_EQ(layout_of(dict("<f4", "(2,3,)")), Layout::contiguous(DType::kFloat32, {2, 3}));
}

TEST(NpyFile, in_fortran_order_has_strides_that_grow) {
  const Layout layout = layout_of(dict("<f4", "(2, 3, 4)", true));
  EXPECT_EQ(layout.shape, Dims({2, 3, 4}));
  EXPECT_EQ(layout.strides, Dims({1, 2, 6}));
  EXPECT_TRUE(layout_of(dict("<f4", "(5,)", true)).is_contiguous());
}

TEST(NpyFile, that_is_no_dict_of_three_is_refused) {
  for (const char* header :
       {"", "{", "{}", "[]", "{'descr': '<f4'}", "{'descr': '<f4', 'shape': (2,)}",
        "{'descr': '<f4', 'fortran_order': 0, 'shape': (2,)}",
        "{'descr': 4, 'fortran_order': False, 'shape': (2,)}",
        "{'descr': '<\\x664', 'fortran_order': False, 'shape': (2,)}",
        "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'more': 1}",
        "{'descr': '<f4' 'fortran_order': False, 'shape': (2,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} 1"})
    expect_refused(npy(header), "InvalidArgument", "header: ");
}

TEST(NpyFile, of_a_shape_that_is_none_is_refused) {
  std::string many = "(";
  for (int i = 0; i < 65; ++i) many += "1,";
  for (const std::string& shape :
       {std::string("(-1,)"), std::string("(1.5,)"), std::string("(3)"), std::string("3"),
        std::string("[3]"), std::string("(,)"), std::string("(2,,3)"), std::string("(True,)"),
        std::string("(9223372036854775808,)"), std::string("(4611686018427387904, 4)"),
        std::string("(4611686018427387904, 4, 0)"), std::string("(2"), many + ")"})
    expect_refused(npy(dict("<f4", shape)), "InvalidArgument", "");
  many.erase(1, 2);
  EXPECT_EQ(layout_of(dict("<f4", many + ")")).shape.size(), 64U);
}

TEST(NpyFile, of_elements_that_no_tensor_has_is_refused) {
  for (const auto& [descr, why] : {std::pair{">f4", "big-endian"},
                                   {"|O", "Python objects"},
                                   {"|V2", "no element type"},
                                   {"<U3", "no dtype"},
                                   {"<M8[ns]", "no dtype"},
                                   {"<f16", "no dtype"},
                                   {"", "no dtype"}})
    expect_refused(npy(dict(descr, "(2,)")), "Unsupported", why);
  expect_refused(npy("{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (2,), }"),
                 "Unsupported", "several fields");
}

TEST(NpyFile, that_is_cut_or_of_another_format_is_refused) {
  const std::string whole = npy(dict("<f4", "(2,)"));
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes)
    expect_refused(whole.substr(0, bytes), "InvalidArgument", "");
  expect_refused("PK\3\4 a file of another format", "InvalidArgument", "not a .npy file");
  expect_refused(npy(dict("<f4", "(2,)"), 4), "Unsupported", "version 4.0");
  expect_refused(npy(dict("<f4", "(2,)") + std::string(10'000, ' ')), "InvalidArgument",
                 "more than the 10000");
}

TEST(NpyFile, must_be_what_is_asked_for) {
  const std::string file = npy(dict("<f4", "(4, 6)"));
  EXPECT_EQ(
      layout_of(dict("<f4", "(4, 6)"), {.dtype = DType::kFloat32, .shape = Dims{-1, 6}}).shape,
      Dims({4, 6}));
  expect_refused(file, "InvalidArgument", "shape=(6, 4), but its header has (4, 6)",
                 {.shape = Dims{6, 4}});
  expect_refused(file, "InvalidArgument", "dtype=int32, but its header has float32",
                 {.dtype = DType::kInt32});
  expect_refused(npy(dict("|V2", "(4, 6)")), "InvalidArgument", "dtype=float32",
                 {.dtype = DType::kFloat32});
}

TEST(NpyFile, that_is_made_is_read_as_the_same) {
  for (const DType dtype : {DType::kBool, DType::kInt8, DType::kFloat32, DType::kComplex128,
                            DType::kBFloat16, DType::kFloat8E5M2})
    for (const Dims& shape : {Dims(), Dims{0}, Dims{7}, Dims{2, 3}, Dims(std::size_t{64})}) {
      const Layout layout = Layout::contiguous(dtype, shape);
      const std::string header = npy_header(layout);
      EXPECT_EQ(header.size() % 64, 0U);
      const FileContents contents = contents_of(header, {.dtype = dtype});
      EXPECT_EQ(contents.start, header.size());
      EXPECT_EQ(contents.tensors.at(0).layout, layout);
    }
}

}  // namespace
}  // namespace tensorbus::tensor
