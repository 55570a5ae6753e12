#include "tensorbus/tensor/files/raw_file.hpp"

#include <algorithm>

namespace tensorbus::tensor {
namespace {

template <typename T>
const T& needed(const std::optional<T>& given, const std::string& what) {
  if (!given) refuse_file(what + ": required for a new file and for a file without a header");
  return *given;
}

}  // namespace

FileContents raw_contents(const FileOptions& options, std::size_t file_bytes) {
  const DType dtype = needed(options.dtype, "dtype");
  if (options.offset > file_bytes)
    refuse_file("offset=" + std::to_string(options.offset) + ", but it has " +
                std::to_string(file_bytes) + " bytes");
  Dims sizes = sizes_in(options.shape, dtype, file_bytes - options.offset);
  return contents_of_one(Layout::contiguous(dtype, std::move(sizes)), options.offset);
}

Layout planned_layout(const FileOptions& options) {
  const DType dtype = needed(options.dtype, "dtype");
  const Dims& shape = needed(options.shape, "shape");
  if (std::ranges::any_of(shape, [](std::int64_t size) { return size < 0; }))
    refuse_file("shape=" + text_of(shape) + ": the sizes of a new file must be 0 or more");
  return Layout::contiguous(dtype, shape);
}

Dims sizes_in(const std::optional<Dims>& shape, DType dtype, std::size_t bytes) {
  Dims sizes = shape.value_or(Dims{-1});
  const auto unknown = std::ranges::count(sizes, -1);
  if (unknown > 1) refuse_file("shape=" + text_of(sizes) + ": only one size can be -1");
  if (unknown == 0) return sizes;
  std::int64_t& count = *std::ranges::find(sizes, -1);
  count = 1;
  const std::size_t each = Layout::contiguous(dtype, sizes).packed_bytes();
  if (each == 0)
    refuse_file("shape=" + text_of(*shape) + ": -1 could be any size, because another size is 0");
  if (bytes % each != 0)
    refuse_file("its " + std::to_string(bytes) + " bytes of elements are not a multiple of " +
                std::to_string(each) + " (" + text_of(sizes) + " of " +
                std::string(name_of(dtype)) + ")");
  count = static_cast<std::int64_t>(bytes / each);
  return sizes;
}

std::string text_of(const Dims& sizes) {
  std::string text = "(";
  for (const std::int64_t size : sizes) text += std::to_string(size) + ", ";
  if (sizes.size() > 1) text.pop_back();
  if (!sizes.empty()) text.pop_back();
  return text + ")";
}

}  // namespace tensorbus::tensor
