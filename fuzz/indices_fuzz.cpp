// Indices of sparse tensors and offsets of nested tensors. They are accepted if PyTorch can use
// them, and else refused. A second implementation checks this, with numbers that do not overflow.
// The indices end where their memory ends, so that a read beyond them is found.

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "fuzz/fuzz.hpp"
#include "tensorbus/tensor/indices.hpp"

namespace tensorbus::fuzz {
namespace {

__extension__ using Wide = __int128;

// Returns a number that is usually small, because others make no tensor, or near a power of two.
// 2^63 becomes the smallest number.
std::int64_t any_number(Input& input) {
  const std::uint8_t kind = input.byte();
  if (kind < 0xe0) return kind & 7;
  const std::uint64_t power = std::uint64_t{1} << (input.byte() & 63);
  return static_cast<std::int64_t>(power + (kind & 7) - 4);
}

class Numbers {
 public:
  explicit Numbers(Input& input) : wide_(input.flag()), shift_(input.below(8)) {
    values_.resize(input.below(24));
    const std::size_t width = wide_ ? 8 : 4;
    bytes_ = std::make_unique<std::byte[]>(shift_ + values_.size() * width);
    std::byte* place = bytes_.get() + shift_;
    for (Wide& value : values_) {
      const std::int64_t number = any_number(input);
      value = wide_ ? number : static_cast<std::int32_t>(number);
      std::memcpy(place, &number, width);  // the low bytes: machines are little-endian
      place += width;
    }
  }

  tensor::Indices indices() const { return {bytes_.get() + shift_, values_.size(), wide_}; }
  std::size_t size() const noexcept { return values_.size(); }
  Wide operator[](std::size_t i) const { return values_.at(i); }

 private:
  bool wide_;
  std::size_t shift_;
  std::vector<Wide> values_;
  std::unique_ptr<std::byte[]> bytes_;
};

bool increase(const std::vector<std::vector<Wide>>& places) {
  return std::adjacent_find(places.begin(), places.end(), std::greater_equal<>()) == places.end();
}

// Returns true if each element has a place in a tensor of these sizes.
bool has_coordinates(const Numbers& indices, const std::vector<std::int64_t>& sizes, Wide count,
                     bool coalesced) {
  const std::size_t dims = sizes.size();
  if (count * static_cast<Wide>(dims) != static_cast<Wide>(indices.size())) return false;
  if (dims == 0) return !coalesced || count < 2;
  std::vector<std::vector<Wide>> places(indices.size() / dims, std::vector<Wide>(dims));
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const std::size_t dim = i / places.size();
    if (indices[i] < 0 || indices[i] >= sizes[dim]) return false;
    places[i % places.size()][dim] = indices[i];
  }
  return !coalesced || increase(places);
}

void coordinates(Input& input) {
  const Numbers indices(input);
  std::vector<std::int64_t> sizes(input.below(5));
  for (std::int64_t& size : sizes) size = any_number(input);
  const auto count = static_cast<std::size_t>(any_number(input));
  const bool coalesced = input.flag();
  const bool taken =
      accepts([&] { tensor::check_coordinates(indices.indices(), sizes, count, coalesced); });
  check(taken == has_coordinates(indices, sizes, count, coalesced));
}

// Returns true if the rows follow one another, each with columns of the tensor in any order, until
// all columns are used.
bool has_rows(const Numbers& begins, const Numbers& columns, std::size_t batch, std::size_t rows,
              std::size_t count, std::int64_t size) {
  std::size_t used = 0;
  for (std::size_t row = 0; row < rows; ++row) {
    const std::size_t at = batch * (rows + 1) + row;
    if (begins[at] != static_cast<Wide>(used) || begins[at + 1] > static_cast<Wide>(count))
      return false;
    for (; static_cast<Wide>(used) < begins[at + 1]; ++used) {
      const Wide column = columns[batch * count + used];
      if (column < 0 || column >= size) return false;
    }
  }
  return used == count && begins[batch * (rows + 1) + rows] == static_cast<Wide>(used);
}

bool is_compressed(const Numbers& begins, const Numbers& columns, std::size_t batches,
                   std::int64_t size) {
  if (batches == 0) return begins.size() == 0 && columns.size() == 0;
  if (begins.size() == 0 || begins.size() % batches != 0 || columns.size() % batches != 0)
    return false;
  for (std::size_t batch = 0; batch < batches; ++batch)
    if (!has_rows(begins, columns, batch, begins.size() / batches - 1, columns.size() / batches,
                  size))
      return false;
  return true;
}

void compressed(Input& input) {
  const Numbers begins(input);
  const Numbers columns(input);
  const auto batches = static_cast<std::size_t>(any_number(input));
  const std::int64_t size = any_number(input);
  const bool taken = accepts(
      [&] { tensor::check_compressed(begins.indices(), columns.indices(), batches, size); });
  check(taken == is_compressed(begins, columns, batches, size));
}

// Returns true if each part lies within the values.
bool is_jagged(const Numbers& offsets, const Numbers* lengths, std::int64_t rows) {
  if (lengths != nullptr && lengths->size() + 1 != offsets.size()) return false;
  for (std::size_t part = 1; part < offsets.size(); ++part) {
    const Wide begin = offsets[part - 1];
    const Wide end = lengths == nullptr ? offsets[part] : begin + (*lengths)[part - 1];
    if (begin < 0 || end < begin || end > rows) return false;
  }
  return true;
}

void jagged(Input& input) {
  const Numbers offsets(input);
  const std::int64_t rows = any_number(input);
  std::optional<Numbers> lengths;
  if (input.flag()) lengths.emplace(input);
  const bool taken = accepts([&] {
    if (!lengths) return tensor::check_jagged(offsets.indices(), nullptr, rows);
    const tensor::Indices known = lengths->indices();
    tensor::check_jagged(offsets.indices(), &known, rows);
  });
  check(taken == is_jagged(offsets, lengths ? &*lengths : nullptr, rows));
}

enum class Part { kInside, kNowhere, kEmpty };  // kEmpty: inside if the strides are valid

// Checks where the element lies that is farthest from the first one.
Part part_at(const Numbers& sizes, const Numbers& strides, std::size_t first, std::size_t dims,
             Wide offset, std::int64_t elements) {
  if (offset < 0 || offset > elements) return Part::kNowhere;
  Wide last = offset;
  bool empty = false;
  for (std::size_t i = first; i < first + dims; ++i) {
    if (sizes[i] < 0 || strides[i] < 0) return Part::kNowhere;
    empty = empty || sizes[i] == 0;
    if (sizes[i] > 1) last = std::min<Wide>(last + (sizes[i] - 1) * strides[i], Wide{1} << 64);
  }
  if (empty) return Part::kEmpty;
  return last < elements ? Part::kInside : Part::kNowhere;
}

void nested(Input& input) {
  const Numbers sizes(input);
  const Numbers strides(input);
  const Numbers offsets(input);
  const std::int64_t elements = any_number(input);
  const bool taken = accepts([&] {
    tensor::check_nested(sizes.indices(), strides.indices(), offsets.indices(), elements);
  });
  const std::size_t dims = offsets.size() == 0 ? 0 : sizes.size() / offsets.size();
  if (sizes.size() != dims * offsets.size() || strides.size() != sizes.size()) return check(!taken);
  bool doubtful = false;
  for (std::size_t part = 0; part < offsets.size(); ++part) {
    const Part found = part_at(sizes, strides, part * dims, dims, offsets[part], elements);
    if (found == Part::kNowhere) return check(!taken);
    doubtful = doubtful || found == Part::kEmpty;
  }
  check(taken || doubtful);
}

void run(Input input) {
  switch (input.below(4)) {
    case 0:
      return coordinates(input);
    case 1:
      return compressed(input);
    case 2:
      return jagged(input);
    default:
      return nested(input);
  }
}

}  // namespace
}  // namespace tensorbus::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tensorbus::fuzz::run(tensorbus::fuzz::Input(data, size));
  return 0;
}
