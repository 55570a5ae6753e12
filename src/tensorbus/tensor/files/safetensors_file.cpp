#include "tensorbus/tensor/files/safetensors_file.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

#include "tensorbus/platform/utf8.hpp"
#include "tensorbus/tensor/files/json_reader.hpp"
#include "tensorbus/tensor/files/raw_file.hpp"

namespace tensorbus::tensor {
namespace {

using platform::in_quotes;

static_assert(std::endian::native == std::endian::little, "numbers in files are little-endian");

constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // as in the reference implementation
constexpr unsigned kMaxFurtherLevels = 125;             // in an unknown field's value; likewise
constexpr std::string_view kMetadata = "__metadata__";

struct Kind {
  std::string_view name;
  unsigned bits;
  std::optional<DType> dtype;  // none if no library has tensors of this type
};
constexpr auto kKinds = std::to_array<Kind>({
    {"BOOL", 8, DType::kBool},
    {"U8", 8, DType::kUInt8},
    {"I8", 8, DType::kInt8},
    {"U16", 16, DType::kUInt16},
    {"I16", 16, DType::kInt16},
    {"U32", 32, DType::kUInt32},
    {"I32", 32, DType::kInt32},
    {"U64", 64, DType::kUInt64},
    {"I64", 64, DType::kInt64},
    {"F16", 16, DType::kFloat16},
    {"BF16", 16, DType::kBFloat16},
    {"F32", 32, DType::kFloat32},
    {"F64", 64, DType::kFloat64},
    {"C64", 64, DType::kComplex64},
    {"F8_E4M3", 8, DType::kFloat8E4M3FN},
    {"F8_E4M3FNUZ", 8, DType::kFloat8E4M3FNUZ},
    {"F8_E5M2", 8, DType::kFloat8E5M2},
    {"F8_E5M2FNUZ", 8, DType::kFloat8E5M2FNUZ},
    {"F8_E8M0", 8, DType::kFloat8E8M0FNU},
    {"F4", 4, DType::kFloat4E2M1FNx2},  // two elements in a byte; the last size counts bytes
    {"F6_E2M3", 6, std::nullopt},       // packed: four elements in three bytes
    {"F6_E3M2", 6, std::nullopt},
});

using Sizes = std::vector<std::int64_t>;

// Returns the size of all elements in bits; empty if it exceeds 63 bits.
std::optional<std::int64_t> bits_of(const Sizes& shape, unsigned bits) {
  if (std::ranges::find(shape, 0) != shape.end()) return 0;
  std::int64_t product = bits;
  for (const std::int64_t size : shape)
    if (__builtin_mul_overflow(product, size, &product)) return std::nullopt;
  return product;
}

// Returns the text. Throws Error(kUnsupported) if it contains a zero byte, as no C string can.
std::string c_text(std::string text) {
  if (text.find('\0') != text.npos)
    throw Error(Code::kUnsupported, "header: " + in_quotes(text) + " has a zero byte");
  return text;
}

// Reads the header's entry for one tensor. Ignores unknown fields.
class EntryReader {
 public:
  EntryReader(JsonReader& json, std::string name) : json_(json), name_(std::move(name)) {}

  // Returns the tensor's place, and the offset of its end.
  std::pair<FilePlace, std::size_t> read() {
    if (json_.next() != '{') refuse_object();
    json_.object([this](const std::string& field) { read_field(field); });
    if (!kind_ || !shape_ || !offsets_) refuse_object();
    check_span();
    return {place(), static_cast<std::size_t>(offsets_->at(1))};
  }

 private:
  [[noreturn]] void wrong(const std::string& why) const {
    refuse_file(in_quotes(name_) + ": " + why);
  }
  [[noreturn]] void refuse_object() const {
    wrong("expected an object of dtype, shape and data_offsets");
  }

  void read_field(const std::string& field) {
    if (field == "dtype")
      once(kind_, field, read_kind());
    else if (field == "shape")
      once(shape_, field,
           read_sizes("shape: expected a list of sizes, at most 64, from 0 to 2^63 - 1"));
    else if (field == "data_offsets")
      once(offsets_, field, read_offsets());
    else
      json_.skip_value(kMaxFurtherLevels);
  }
  template <typename T>
  void once(std::optional<T>& target, const std::string& field, T value) const {
    if (target) wrong(in_quotes(field) + " is there twice");
    target = std::move(value);
  }

  const Kind* read_kind() {
    if (json_.next() != '"') wrong("dtype: expected a text");
    const std::string name = json_.text();
    const auto found = std::ranges::find(kKinds, name, &Kind::name);
    if (found == kKinds.end()) wrong("dtype: there is no " + in_quotes(name));
    return &*found;
  }
  Sizes read_sizes(const std::string& expected) {
    Sizes sizes;
    if (json_.next() != '[') wrong(expected);
    json_.list([&] {
      const auto size = json_.try_number();
      if (!size || sizes.size() == kMaxDims) wrong(expected);
      sizes.push_back(*size);
    });
    return sizes;
  }
  Sizes read_offsets() {
    const std::string expected = "data_offsets: expected its begin and its end";
    Sizes offsets = read_sizes(expected);
    if (offsets.size() != 2 || offsets[0] > offsets[1]) wrong(expected);
    return offsets;
  }

  void check_span() const {
    const std::int64_t bytes = offsets_->at(1) - offsets_->at(0);
    const auto bits = bits_of(*shape_, (*kind_)->bits);
    if (bits && *bits % 8 == 0 && *bits / 8 == bytes) return;
    wrong("data_offsets: " + std::to_string(bytes) + " bytes, but " + std::string((*kind_)->name) +
          " of shape " + text_of(Dims(std::span<const std::int64_t>(*shape_))).substr(0, 200) +
          " has " + (bits ? std::to_string(*bits) : "2^63 or more") + " bits");
  }

  FilePlace place() const {
    const Kind& kind = **kind_;
    FilePlace found{.name = name_,
                    .layout = {},
                    .elements = std::string(kind.name),
                    .offset = static_cast<std::size_t>(offsets_->at(0))};
    if (kind.dtype) found.layout = layout_of(*kind.dtype);
    return found;
  }
  Layout layout_of(DType dtype) const {
    Dims sizes{std::span<const std::int64_t>(*shape_)};
    if (dtype == DType::kFloat4E2M1FNx2) {
      if (sizes.empty() || sizes[sizes.size() - 1] % 2 != 0)
        wrong("shape: the last size of F4, two in a byte, must be even");
      sizes[sizes.size() - 1] /= 2;
    }
    try {
      return Layout::contiguous(dtype, std::move(sizes));
    } catch (const Error& error) {
      wrong(std::string("shape: ") + error.what());  // no elements, but a huge size
    }
  }

  JsonReader& json_;
  const std::string name_;
  std::optional<const Kind*> kind_;
  std::optional<Sizes> shape_;
  std::optional<Sizes> offsets_;
};

// Returns the indices, sorted by name. Throws if a name occurs twice.
template <typename Items, typename Name>
std::vector<std::uint32_t> order_by_name(const Items& items, Name Items::value_type::* name) {
  std::vector<std::uint32_t> order(items.size());
  std::iota(order.begin(), order.end(), 0U);
  const auto name_of = [&](std::uint32_t i) -> const std::string& { return items[i].*name; };
  std::ranges::sort(order, {}, name_of);
  const auto twice = std::ranges::adjacent_find(order, {}, name_of);
  if (twice != order.end())
    refuse_file("header: " + in_quotes(name_of(*twice)) + " is there twice");
  return order;
}

class HeaderReader {
 public:
  explicit HeaderReader(std::string_view text) : json_("header", text) {}

  FileContents read() {
    if (json_.next() != '{') refuse_file("header: expected a JSON object");
    json_.object([this](std::string name) { read_member(std::move(name)); });
    json_.end();
    (void)order_by_name(contents_.metadata, &std::pair<std::string, std::string>::first);
    contents_.by_name = order_by_name(contents_.tensors, &FilePlace::name);
    contents_.bytes = end_of_spans();
    contents_.named = true;
    return std::move(contents_);
  }

 private:
  void read_member(std::string name) {
    if (name == kMetadata) return read_metadata();
    auto [place, end] = EntryReader(json_, c_text(std::move(name))).read();
    spans_.push_back({place.offset, end, contents_.tensors.size()});
    contents_.tensors.push_back(std::move(place));
  }

  void read_metadata() {
    const auto require = [this](char first) {
      if (json_.next() != first)
        refuse_file(std::string(kMetadata) + ": expected an object of texts");
    };
    if (std::exchange(has_metadata_, true))
      refuse_file("header: " + in_quotes(kMetadata) + " is there twice");
    if (json_.skip_null()) return;
    require('{');
    json_.object([&](std::string key) {
      require('"');
      contents_.metadata.emplace_back(c_text(std::move(key)), c_text(json_.text()));
    });
  }

  // Checks that the spans adjoin without gaps; returns the end of the last.
  std::size_t end_of_spans() {
    std::ranges::sort(spans_, {}, [](const Span& span) { return std::pair(span.begin, span.end); });
    std::size_t at = 0;
    for (const Span& span : spans_) {
      if (span.begin != at)
        refuse_file(in_quotes(contents_.tensors[span.tensor].name) +
                    ": data_offsets: it begins at " + std::to_string(span.begin) +
                    ", but the tensor before it ends at " + std::to_string(at));
      at = span.end;
    }
    return at;
  }

  struct Span {
    std::size_t begin;
    std::size_t end;
    std::size_t tensor;
  };

  JsonReader json_;
  FileContents contents_;
  std::vector<Span> spans_;
  bool has_metadata_ = false;
};

std::string read_header(const FileBytes& file) {
  const std::string prefix = file.read(0, 8);
  if (prefix.size() < 8)
    refuse_file("not a safetensors file: it has " + std::to_string(prefix.size()) + " bytes");
  std::uint64_t length = 0;
  std::memcpy(&length, prefix.data(), sizeof length);
  if (length > kMaxHeaderBytes)
    refuse_file("header length: " + std::to_string(length) + " bytes, more than the " +
                std::to_string(kMaxHeaderBytes) + " allowed");
  std::string text = file.read(8, length);
  if (text.size() < length)
    refuse_file("header length: " + std::to_string(length) + " bytes, but the file has only " +
                std::to_string(text.size()) + " of them");
  return text;
}

}  // namespace

FileContents safetensors_contents(const FileBytes& file) {
  const std::string text = read_header(file);
  FileContents contents = HeaderReader(text).read();
  contents.start = 8 + text.size();
  const std::size_t there = file.size() - contents.start;
  if (contents.bytes != there)
    refuse_file("its header describes " + std::to_string(contents.bytes) + " bytes, but " +
                std::to_string(there) + " follow it");
  return contents;
}

}  // namespace tensorbus::tensor
