#include "tensorbus/tensor/indices.hpp"

#include <optional>
#include <string>

#include "tensorbus/platform/error.hpp"
#include "tensorbus/platform/limits.hpp"

namespace tensorbus::tensor {
namespace {

[[noreturn]] void refuse_indices(const std::string& why) {
  throw Error(Code::kProtocol, "sample.fields: " + why);
}

void require_size(const char* what, const Indices& indices, std::size_t size) {
  if (indices.size() != size)
    refuse_indices("a tensor with " + std::to_string(indices.size()) + " " + what + ", expected " +
                   std::to_string(size));
}

bool comes_after(const Indices& indices, std::size_t dims, std::size_t count, std::size_t i) {
  for (std::size_t dim = 0; dim < dims; ++dim) {
    const std::int64_t before = indices[dim * count + i - 1];
    const std::int64_t here = indices[dim * count + i];
    if (before != here) return before < here;
  }
  return false;
}

// Checks the batch whose first entry is begins[first].
void check_begins(const Indices& begins, std::size_t first, std::size_t rows, std::size_t count) {
  if (begins[first] != 0)
    refuse_indices("a sparse tensor whose first row begins at " + std::to_string(begins[first]));
  for (std::size_t row = first; row < first + rows; ++row)
    if (begins[row + 1] < begins[row])
      refuse_indices("a sparse tensor with a row that ends at " + std::to_string(begins[row + 1]) +
                     ", before it begins");
  if (begins[first + rows] != static_cast<std::int64_t>(count))
    refuse_indices("a sparse tensor whose rows end at " + std::to_string(begins[first + rows]) +
                   " of " + std::to_string(count) + " elements");
}

void check_columns(const Indices& columns, std::size_t begin, std::size_t end, std::int64_t size) {
  for (std::size_t i = begin; i < end; ++i)
    if (columns[i] < 0 || columns[i] >= size)
      refuse_indices("a sparse tensor with index " + std::to_string(columns[i]) + " in a row of " +
                     std::to_string(size));
}

// Returns the end of one part of a nested tensor in its buffer; empty if the values are invalid.
std::optional<std::int64_t> end_of_part(const Indices& sizes, const Indices& strides,
                                        std::size_t first, std::size_t dims, std::int64_t offset) {
  std::int64_t last = offset;
  bool empty = false;
  for (std::size_t i = first; i < first + dims; ++i) {
    if (sizes[i] < 0 || strides[i] < 0) return std::nullopt;
    if (sizes[i] == 0) {
      empty = true;
      continue;
    }
    std::int64_t reach = 0;
    if (__builtin_mul_overflow(sizes[i] - 1, strides[i], &reach) ||
        __builtin_add_overflow(last, reach, &last))
      return std::nullopt;
  }
  std::int64_t end = 0;
  if (__builtin_add_overflow(empty ? offset : last, empty ? 0 : 1, &end)) return std::nullopt;
  return end;
}

}  // namespace

std::shared_ptr<std::byte[]> private_copy_of(const std::byte* source, const Layout& layout) {
  return platform::with_memory_errors([&] {
    (void)span_of(layout);  // throws
    auto copy = std::make_shared_for_overwrite<std::byte[]>(layout.packed_bytes());
    copy_elements(copy.get(), Layout::contiguous(layout.dtype, layout.shape), source, layout,
                  Stores::kOrdinary);
    return copy;
  });
}

void check_coordinates(const Indices& indices, std::span<const std::int64_t> sizes,
                       std::size_t count, bool coalesced) {
  std::size_t total = 0;
  if (__builtin_mul_overflow(sizes.size(), count, &total))
    refuse_indices("a sparse tensor of " + std::to_string(count) + " elements");
  require_size("indices", indices, total);
  for (std::size_t dim = 0; dim < sizes.size(); ++dim)
    for (std::size_t i = 0; i < count; ++i) {
      const std::int64_t index = indices[dim * count + i];
      if (index < 0 || index >= sizes[dim])
        refuse_indices("a sparse tensor with index " + std::to_string(index) + " in dimension " +
                       std::to_string(dim) + " of size " + std::to_string(sizes[dim]));
    }
  if (!coalesced) return;
  for (std::size_t i = 1; i < count; ++i)
    if (!comes_after(indices, sizes.size(), count, i))
      refuse_indices("a sparse tensor is marked as coalesced, but its indices are not ascending");
}

void check_compressed(const Indices& begins, const Indices& columns, std::size_t batches,
                      std::int64_t size) {
  if (batches != 0 && begins.size() < batches) refuse_indices("a sparse tensor without rows");
  const std::size_t rows = batches == 0 ? 0 : begins.size() / batches - 1;
  const std::size_t count = batches == 0 ? 0 : columns.size() / batches;
  require_size("rows", begins, batches * (rows + 1));
  require_size("columns", columns, batches * count);
  for (std::size_t batch = 0; batch < batches; ++batch) {
    const std::size_t first = batch * (rows + 1);
    check_begins(begins, first, rows, count);
    for (std::size_t row = first; row < first + rows; ++row)
      check_columns(columns, batch * count + static_cast<std::size_t>(begins[row]),
                    batch * count + static_cast<std::size_t>(begins[row + 1]), size);
  }
}

void check_jagged(const Indices& offsets, const Indices* lengths, std::int64_t rows) {
  if (lengths != nullptr) require_size("lengths", *lengths, offsets.size() - 1);
  for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
    const std::int64_t begin = offsets[i];
    const bool begins_inside = begin >= 0 && begin <= rows;
    std::int64_t length = -1;
    if (begins_inside && lengths != nullptr)
      length = (*lengths)[i];
    else if (begins_inside && offsets[i + 1] >= begin)
      length = offsets[i + 1] - begin;
    if (length < 0 || length > rows - begin)
      refuse_indices("a nested tensor that reaches beyond its values: part " + std::to_string(i) +
                     " of " + std::to_string(rows) + " rows begins at " + std::to_string(begin));
  }
}

void check_nested(const Indices& sizes, const Indices& strides, const Indices& offsets,
                  std::int64_t elements) {
  const std::size_t dims = offsets.size() == 0 ? 0 : sizes.size() / offsets.size();
  require_size("sizes", sizes, dims * offsets.size());
  require_size("strides", strides, sizes.size());
  for (std::size_t part = 0; part < offsets.size(); ++part) {
    const std::int64_t offset = offsets[part];
    const auto end =
        offset < 0 ? std::nullopt : end_of_part(sizes, strides, part * dims, dims, offset);
    if (!end || *end > elements)
      refuse_indices("a nested tensor that reaches beyond its values: part " +
                     std::to_string(part) + " begins at " + std::to_string(offset) + " of " +
                     std::to_string(elements));
  }
}

}  // namespace tensorbus::tensor
