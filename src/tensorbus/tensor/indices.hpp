#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>

#include "tensorbus/platform/export.hpp"
#include "tensorbus/tensor/layout.hpp"

namespace tensorbus::tensor {

// Integers that address other memory: the indices of a sparse tensor, the offsets of a nested
// tensor. Libraries use them unchecked, so they are checked on arrival. They are checked in memory
// that no other process can write to, so that they cannot change after the check. The calling
// thread checks all of them, because a forked child has no other threads.
//
// Each check throws Error(kProtocol) that names the invalid number.
class Indices {
 public:
  // `first` need not be aligned. `wide`: int64, else int32.
  Indices(const std::byte* first, std::size_t count, bool wide)
      : first_(first), count_(count), wide_(wide) {}

  std::size_t size() const noexcept { return count_; }
  std::int64_t operator[](std::size_t i) const noexcept {
    if (wide_) return read<std::int64_t>(i);
    return read<std::int32_t>(i);
  }

 private:
  template <typename Number>
  Number read(std::size_t i) const noexcept {
    Number number;
    std::memcpy(&number, first_ + i * sizeof number, sizeof number);
    return number;
  }

  const std::byte* first_;
  std::size_t count_;
  bool wide_;
};

// Copies the elements of a tensor, row-major, into memory of this process alone. Throws
// Error(kInvalidArgument) if sizes and strides contradict each other, or Error(kOutOfMemory).
TENSORBUS_API std::shared_ptr<std::byte[]> private_copy_of(const std::byte* source,
                                                           const Layout& layout);

// COO: `count` indices for each of `sizes`. `coalesced`: in strictly ascending row-major order.
TENSORBUS_API void check_coordinates(const Indices& indices, std::span<const std::int64_t> sizes,
                                     std::size_t count, bool coalesced);

// CSR, CSC, BSR, BSC, `batches` of them: `begins` has the index in `columns` at which each row
// begins. Columns are less than `size`, in any order in a row, as in the products that PyTorch
// computes.
TENSORBUS_API void check_compressed(const Indices& begins, const Indices& columns,
                                    std::size_t batches, std::int64_t size);

// Jagged: part i begins at offsets[i] and has lengths[i] rows; without lengths, it ends where the
// next part begins. The total is `rows`.
TENSORBUS_API void check_jagged(const Indices& offsets, const Indices* lengths, std::int64_t rows);

// Nested and strided: each part has `dims` sizes and strides, and begins at its offset in a buffer
// of `elements` elements.
TENSORBUS_API void check_nested(const Indices& sizes, const Indices& strides,
                                const Indices& offsets, std::int64_t elements);

}  // namespace tensorbus::tensor
