#include "tensorbus/tensor/files/safetensors_file.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/unit/platform/test_support.hpp"
#include "tests/unit/tensor/files/file_test_support.hpp"

namespace tensorbus::tensor {
namespace {

using test::Content;
using test::error_of;

std::string file_of(const std::string& header, std::size_t data_bytes, std::uint64_t length) {
  std::string file;
  for (int i = 0; i < 8; ++i) file += static_cast<char>(length >> (8 * i) & 0xFF);
  return file + header + std::string(data_bytes, '\0');
}
std::string file_of(const std::string& header, std::size_t data_bytes) {
  return file_of(header, data_bytes, header.size());
}

std::string entry(const std::string& dtype, const std::string& shape, std::size_t begin,
                  std::size_t end) {
  return R"({"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":[)" +
         std::to_string(begin) + "," + std::to_string(end) + "]}";
}

FileContents read_file(const std::string& file) {
  return safetensors_contents(Content(file).bytes());
}

void expect_refused(const std::string& file, const std::string& part) {
  std::string message;
  EXPECT_EQ(error_of([&] { (void)read_file(file); }, &message), "InvalidArgument") << file;
  EXPECT_NE(message.find(part), std::string::npos) << message;
}
// Of a file with eight bytes behind its header.
void expect_header_refused(const std::string& header, const std::string& part) {
  expect_refused(file_of(header, 8), part);
}

TEST(SafetensorsFile, says_where_its_tensors_lie) {
  const std::string header = R"({"__metadata__":{"format":"pt","a":""},"weight":)" +
                             entry("F32", "[4,6]", 0, 96) + R"(,"bias":)" +
                             entry("I64", "[3]", 96, 120) + "}  ";
  const FileContents contents = read_file(file_of(header, 120));
  EXPECT_EQ(contents.start, 8 + header.size());
  EXPECT_EQ(contents.bytes, 120U);
  EXPECT_TRUE(contents.named);
  ASSERT_EQ(contents.tensors.size(), 2U);
  EXPECT_EQ(contents.tensors[0].name, "weight");
  EXPECT_EQ(contents.tensors[0].layout, Layout::contiguous(DType::kFloat32, {4, 6}));
  ASSERT_EQ(contents.find("bias"), &contents.tensors[1]);
  EXPECT_EQ(contents.find("bias")->offset, 96U);
  EXPECT_EQ(contents.find("nobody"), nullptr);
  EXPECT_EQ(contents.metadata,
            (std::vector<std::pair<std::string, std::string>>{{"format", "pt"}, {"a", ""}}));
}

TEST(SafetensorsFile, may_have_its_tensors_in_any_order_and_empty_ones_among_them) {
  const std::string header = R"({"b":)" + entry("U8", "[3]", 5, 8) + R"(,"none":)" +
                             entry("F32", "[0,5]", 5, 5) + R"(,"a":)" + entry("U8", "[5]", 0, 5) +
                             R"(,"scalar":)" + entry("U8", "[]", 8, 9) + "}";
  const FileContents contents = read_file(file_of(header, 9));
  EXPECT_EQ(contents.find("none")->layout->shape, Dims({0, 5}));
  EXPECT_TRUE(contents.find("scalar")->layout->shape.empty());
  EXPECT_TRUE(read_file(file_of("{}", 0)).tensors.empty());
}

TEST(SafetensorsFile, has_two_in_a_byte_and_six_bits) {
  const std::string header = R"({"four":)" + entry("F4", "[2,8]", 0, 8) + R"(,"six":)" +
                             entry("F6_E2M3", "[4]", 8, 11) + "}";
  const FileContents contents = read_file(file_of(header, 11));
  EXPECT_EQ(contents.tensors[0].layout, Layout::contiguous(DType::kFloat4E2M1FNx2, {2, 4}));
  EXPECT_FALSE(contents.tensors[1].layout);
  EXPECT_EQ(contents.tensors[1].elements, "F6_E2M3");
}

TEST(SafetensorsFile, may_have_what_the_safetensors_library_reads) {
  const std::string levels = std::string(125, '[') + std::string(125, ']');
  const std::string header =
      "\n\t  "
      R"({"__metadata__": null, "t": {"note": {"a": [1.5, "\u0000"]}, "dtype": "U8",)"
      R"( "shape": [8], "levels": )" +
      levels + R"(, "data_offsets": [0, 8], "note": 2}})" + "\n";
  const FileContents contents = read_file(file_of(header, 8));
  EXPECT_EQ(contents.start, 8 + header.size());
  EXPECT_EQ(contents.find("t")->layout, Layout::contiguous(DType::kUInt8, {8}));
  EXPECT_TRUE(contents.metadata.empty());
}

TEST(SafetensorsFile, with_a_zero_byte_in_a_name_is_not_supported) {
  const std::string good = entry("F32", "[2]", 0, 8);
  for (const std::string& header :
       {R"({"t\u0000": )" + good + "}", R"({"__metadata__": {"a": "\u0000"}, "t": )" + good + "}",
        R"({"__metadata__": {"\u0000": "a"}, "t": )" + good + "}"}) {
    std::string message;
    EXPECT_EQ(error_of([&] { (void)read_file(file_of(header, 8)); }, &message), "Unsupported");
    EXPECT_NE(message.find("zero byte"), std::string::npos) << message;
  }
}

TEST(SafetensorsFile, of_which_the_length_cannot_be_is_refused) {
  const std::string header = R"({"t":)" + entry("F32", "[2]", 0, 8) + "}";
  for (const std::uint64_t length :
       {std::uint64_t{7}, std::uint64_t{1000}, std::uint64_t{100'000'001}, ~std::uint64_t{0}})
    expect_refused(file_of(header, 8, length), "header");
  expect_refused("1234567", "it has 7 bytes");
  expect_refused(file_of("", 8), "expected a JSON object");
}

TEST(SafetensorsFile, with_a_header_that_is_no_json_of_this_format_is_refused) {
  const std::string good = entry("F32", "[2]", 0, 8);
  for (const auto& [header, part] : std::vector<std::pair<std::string, std::string>>{
           {R"([1, 2])", "header: expected a JSON object"},
           {"\xef\xbb\xbf{}", "header: expected a JSON object"},
           {R"({"t": )" + good, "header: "},
           {R"({"t": )" + good + "} x", "header: "},
           {"{\"\xff\": 1}", "header: "},
           {R"({"t":)" + good + R"(,"t":)" + good + "}", "'t' is there twice"},
           {R"({"t": 3})", "'t': expected an object"},
           {R"({"t": )" + std::string(100'000, '['), "'t': expected an object"},
           {R"({"t": {"dtype": "F32", "shape": [2]}})", "'t': expected an object of dtype"},
           {R"({"t": {"dtype": "F32", "x": 1}})", "'t': expected an object of dtype"},
           {R"({"t": {"x": 01}})", "header: byte "},
           {R"({"t": {"x": )" + std::string(126, '[') + std::string(126, ']') + "}}", "levels"},
           {R"({"t": {"dtype": "F32", "dtype": "F32"}})", "'dtype' is there twice"},
           {R"({"__metadata__": [], "t":)" + good + "}", "__metadata__: "},
           {R"({"__metadata__": nil, "t":)" + good + "}", "__metadata__: "},
           {R"({"__metadata__": null, "__metadata__": null})", "'__metadata__' is there twice"},
           {R"({"__metadata__": {"a": 1}, "t":)" + good + "}", "__metadata__: "},
           {R"({"__metadata__": {"a": "", "a": ""}, "t":)" + good + "}", "'a' is there twice"},
           {R"({"__metadata__": {}, "__metadata__": {}})", "'__metadata__' is there twice"}})
    expect_header_refused(header, part);
}

TEST(SafetensorsFile, with_a_field_that_is_wrong_is_refused_and_the_field_named) {
  std::string many = "[1";
  for (int i = 0; i < 64; ++i) many += ",1";
  for (const auto& [tensor, part] : std::vector<std::pair<std::string, std::string>>{
           {entry("F33", "[2]", 0, 8), "'t': dtype: there is no 'F33'"},
           {R"({"dtype": 7, "shape": [2], "data_offsets": [0, 8]})", "'t': dtype: "},
           {entry("F32", "2", 0, 8), "'t': shape: "},
           {entry("F32", "[-2]", 0, 8), "'t': shape: "},
           {entry("F32", "[2.0]", 0, 8), "'t': shape: "},
           {entry("F32", "[true, 2]", 0, 8), "'t': shape: "},
           {entry("F32", "[18446744073709551616]", 0, 8), "'t': shape: "},
           {entry("U8", many + "]", 0, 8), "'t': shape: "},
           {entry("F4", "[2, 4, 1]", 0, 4), "'t': shape: "},
           {entry("F32", "[0, 4611686018427387904, 4]", 0, 0), "'t': shape: "},
           {entry("F32", "[4611686018427387904, 4]", 0, 8), "'t': data_offsets: 8 bytes"},
           {entry("F32", "[3]", 0, 8), "'t': data_offsets: 8 bytes, but F32 of shape (3,) has 96"},
           {entry("F6_E2M3", "[1]", 0, 1), "'t': data_offsets: "},
           {entry("F32", "[2]", 8, 0), "'t': data_offsets: "},
           {R"({"dtype": "F32", "shape": [2], "data_offsets": [0, 8, 8]})", "'t': data_offsets: "},
           {R"({"dtype": "F32", "shape": [2], "data_offsets": 8})", "'t': data_offsets: "}})
    expect_header_refused(R"({"t": )" + tensor + "}", part);
}

TEST(SafetensorsFile, with_gaps_overlaps_or_bytes_left_over_is_refused) {
  const auto two = [](const std::string& a, const std::string& b) {
    return R"({"a":)" + a + R"(,"b":)" + b + "}";
  };
  expect_header_refused(R"({"t":)" + entry("F32", "[1]", 4, 8) + "}", "it begins at 4");
  expect_header_refused(two(entry("U8", "[3]", 0, 3), entry("U8", "[4]", 4, 8)),
                        "'b': data_offsets: it begins at 4, but the tensor before it ends at 3");
  expect_header_refused(two(entry("U8", "[8]", 0, 8), entry("U8", "[4]", 4, 8)),
                        "'b': data_offsets: it begins at 4, but the tensor before it ends at 8");
  expect_header_refused(R"({"t":)" + entry("F32", "[3]", 0, 12) + "}", "12 bytes, but 8 follow");
  expect_header_refused(R"({"t":)" + entry("F32", "[1]", 0, 4) + "}", "4 bytes, but 8 follow");
}

}  // namespace
}  // namespace tensorbus::tensor
