#include "tensorbus/tensor/files/npy_file.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "tensorbus/platform/utf8.hpp"
#include "tensorbus/tensor/files/raw_file.hpp"
#include "tensorbus/tensor/files/text_cursor.hpp"

namespace tensorbus::tensor {
namespace {

using platform::in_quotes;

static_assert(std::endian::native == std::endian::little, "numbers in files are little-endian");

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kVersionEnd = kMagic.size() + 2;
constexpr std::size_t kMaxNpyHeaderBytes = 10'000;  // as in NumPy
constexpr std::size_t kAlignment = 64;              // of the elements, in new files

// NumPy's names of dtypes, without byte order.
struct NpyKind {
  std::string_view name;
  DType dtype;
};
constexpr auto kNpyKinds = std::to_array<NpyKind>({{"b1", DType::kBool},
                                                   {"u1", DType::kUInt8},
                                                   {"i1", DType::kInt8},
                                                   {"u2", DType::kUInt16},
                                                   {"i2", DType::kInt16},
                                                   {"u4", DType::kUInt32},
                                                   {"i4", DType::kInt32},
                                                   {"u8", DType::kUInt64},
                                                   {"i8", DType::kInt64},
                                                   {"f2", DType::kFloat16},
                                                   {"f4", DType::kFloat32},
                                                   {"f8", DType::kFloat64},
                                                   {"c8", DType::kComplex64},
                                                   {"c16", DType::kComplex128}});

[[noreturn]] void cannot(std::string_view descr, const std::string& why) {
  throw Error(Code::kUnsupported, "descr: " + in_quotes(descr) + why);
}

struct Header {
  std::string_view descr;
  bool fortran = false;
  Dims shape;
};

std::uint64_t little_endian(std::string_view bytes) {
  std::uint64_t number = 0;
  for (std::size_t i = bytes.size(); i-- > 0;)
    number = number << 8 | static_cast<unsigned char>(bytes[i]);
  return number;
}

// Returns the offset and the length of the header, in bytes.
std::pair<std::size_t, std::size_t> place_of_header(const FileBytes& file) {
  const std::string prefix = file.read(0, kVersionEnd + 4);
  if (!prefix.starts_with(kMagic) || prefix.size() < kVersionEnd)
    refuse_file("not a .npy file: it does not begin with \"\\x93NUMPY\" and a version");
  const auto major = static_cast<unsigned char>(prefix[kMagic.size()]);
  const auto minor = static_cast<unsigned char>(prefix[kMagic.size() + 1]);
  if (major < 1 || major > 3 || minor != 0)
    throw Error(Code::kUnsupported, "a .npy file of version " + std::to_string(major) + "." +
                                        std::to_string(minor) + ": expected 1.0 to 3.0");
  const std::size_t start = kVersionEnd + (major == 1 ? 2 : 4);
  if (prefix.size() < start) refuse_file("header length: the file ends within it");
  const auto length = static_cast<std::size_t>(
      little_endian(std::string_view(prefix).substr(kVersionEnd, start - kVersionEnd)));
  if (length > kMaxNpyHeaderBytes)
    refuse_file("header length: " + std::to_string(length) + " bytes, more than the " +
                std::to_string(kMaxNpyHeaderBytes) + " allowed");
  return {start, length};
}

std::string_view read_text(TextCursor& cursor) {
  const char quote = cursor.next();
  if (quote != '\'' && quote != '"') cursor.refuse("a text");
  cursor.advance(1);
  const std::string_view rest = cursor.rest();
  const std::size_t end = rest.find_first_of("'\"\\\n");
  if (end == rest.npos || rest[end] != quote) cursor.refuse("a text without escapes");
  cursor.advance(end + 1);
  return rest.substr(0, end);
}

std::string_view read_descr(TextCursor& cursor) {
  const char first = cursor.next();
  if (first == '[' || first == '(')
    cannot(cursor.rest(), ": its elements have several fields; those of a tensor have one");
  return read_text(cursor);
}

bool read_truth(TextCursor& cursor) {
  if (cursor.skip("True")) return true;
  if (!cursor.skip("False")) cursor.refuse("True or False for fortran_order");
  return false;
}

Dims read_shape(TextCursor& cursor) {
  std::vector<std::int64_t> sizes;
  bool comma = true;
  cursor.expect('(');
  while (comma && cursor.next() != ')') {
    const auto size = cursor.try_number();
    if (!size || sizes.size() == kMaxDims)
      cursor.refuse("at most 64 sizes in shape, from 0 to 2^63 - 1");
    sizes.push_back(*size);
    comma = cursor.skip(',');
  }
  if (sizes.size() == 1 && !comma) cursor.expect(',');  // "(3)" is not a tuple
  cursor.expect(')');
  return Dims(std::span<const std::int64_t>(sizes));
}

Header parsed(std::string_view text) {
  TextCursor cursor("header", text);
  Header header;
  std::set<std::string_view> seen;
  bool comma = true;
  cursor.expect('{');
  while (comma && cursor.next() != '}') {
    const std::string_view key = read_text(cursor);
    cursor.expect(':');
    if (!seen.insert(key).second) refuse_file("header: " + in_quotes(key) + " is there twice");
    if (key == "descr")
      header.descr = read_descr(cursor);
    else if (key == "fortran_order")
      header.fortran = read_truth(cursor);
    else if (key == "shape")
      header.shape = read_shape(cursor);
    else
      refuse_file("header: expected descr, fortran_order and shape, found " + in_quotes(key));
    comma = cursor.skip(',');
  }
  cursor.expect('}');
  cursor.expect_end();
  if (seen.size() != 3)
    refuse_file("header: expected descr, fortran_order and shape, found " +
                std::to_string(seen.size()) + " of them");
  return header;
}

// Returns the dtype that descr names, or `asked` if descr names only a size.
DType dtype_in(std::string_view descr, const std::optional<DType>& asked) {
  const bool has_order = !descr.empty() && std::string_view("<>|=").find(descr[0]) != descr.npos;
  const std::string_view name = descr.substr(has_order ? 1 : 0);
  if (name.starts_with('V')) {
    if (!asked) cannot(descr, " has no element type: give the dtype");
    if (name.substr(1) == std::to_string(item_bytes(*asked))) return *asked;
    refuse_file("dtype=" + std::string(name_of(*asked)) + ", but its header has " +
                in_quotes(descr));
  }
  if (name.starts_with('O')) cannot(descr, ": its elements are Python objects");
  const auto kind = std::ranges::find(kNpyKinds, name, &NpyKind::name);
  if (kind == kNpyKinds.end()) cannot(descr, ": no dtype for these elements");
  if (descr[0] == '>' && item_bytes(kind->dtype) > 1)
    cannot(descr, ": its elements are big-endian, and this machine is not");
  return kind->dtype;
}

// Returns a layout in which the first dimension is the innermost.
Layout column_major(DType dtype, const Dims& shape) {
  Dims reversed = shape;
  std::reverse(reversed.begin(), reversed.end());
  Layout layout = Layout::contiguous(dtype, std::move(reversed));
  std::reverse(layout.shape.begin(), layout.shape.end());
  std::reverse(layout.strides.begin(), layout.strides.end());
  return layout;
}

void require_as_asked(const FileOptions& asked, const Layout& found) {
  if (asked.dtype && *asked.dtype != found.dtype)
    refuse_file("dtype=" + std::string(name_of(*asked.dtype)) + ", but its header has " +
                std::string(name_of(found.dtype)));
  if (asked.shape && sizes_in(asked.shape, found.dtype, found.packed_bytes()) != found.shape)
    refuse_file("shape=" + text_of(*asked.shape) + ", but its header has " + text_of(found.shape));
}

// Returns descr as NumPy writes it; for a dtype that NumPy lacks, '|V' and the item size.
std::string descr_of(DType dtype) {
  const auto kind = std::ranges::find(kNpyKinds, dtype, &NpyKind::dtype);
  const std::string bytes = std::to_string(item_bytes(dtype));
  if (kind == kNpyKinds.end()) return "|V" + bytes;
  return (item_bytes(dtype) == 1 ? "|" : "<") + std::string(kind->name);
}

}  // namespace

FileContents npy_contents(const FileBytes& file, const FileOptions& options) {
  const auto [start, length] = place_of_header(file);
  const std::string text = file.read(start, length);
  if (text.size() < length)
    refuse_file("header length: " + std::to_string(length) + " bytes, but the file has only " +
                std::to_string(text.size()) + " of them");
  Header header = parsed(text);
  const DType dtype = dtype_in(header.descr, options.dtype);
  Layout layout = header.fortran ? column_major(dtype, header.shape)
                                 : Layout::contiguous(dtype, std::move(header.shape));
  require_as_asked(options, layout);
  return contents_of_one(std::move(layout), start + length);
}

std::string npy_header(const Layout& layout) {
  std::string text = "{'descr': '" + descr_of(layout.dtype) +
                     "', 'fortran_order': False, 'shape': " + text_of(layout.shape) + ", }";
  const std::size_t start = kVersionEnd + 2;
  text.append(kAlignment - 1 - (start + text.size()) % kAlignment, ' ');
  text += '\n';
  std::string header(kMagic);
  header +=
      {'\1', '\0', static_cast<char>(text.size() & 0xFF), static_cast<char>(text.size() >> 8)};
  return header + text;
}

}  // namespace tensorbus::tensor
