#pragma once

#include <array>
#include <cassert>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tensorbus/values/device.hpp>
#include <tensorbus/values/error.hpp>
#include <tensorbus/values/layout.hpp>
#include <type_traits>
#include <version>
#if defined(__cpp_lib_mdspan)
#include <mdspan>
#endif

namespace tensorbus::inline v0 {

// Accesses the elements of a tensor in host memory by index, with any strides. The rank is known at
// compile time. Similar to std::mdspan of C++23, which mdspan() returns. A view owns nothing.
//
//   const auto pixels = sample->tensor().view<std::uint8_t, 3>();
//   for (std::int64_t y = 0; y < pixels.extent(0); ++y) sum += pixels(y, 0, 2);
template <typename T, std::size_t Rank>
class ArrayView {
 public:
  using Extents = std::array<std::int64_t, Rank>;

  ArrayView(T* first, const Extents& shape, const Extents& strides) noexcept
      : first_(first), shape_(shape), strides_(strides) {}

  T* data() const noexcept { return first_; }
  static constexpr std::size_t rank() noexcept { return Rank; }
  const Extents& shape() const noexcept { return shape_; }
  const Extents& strides() const noexcept { return strides_; }  // in elements
  std::int64_t extent(std::size_t axis) const noexcept { return shape_[axis]; }
  std::int64_t stride(std::size_t axis) const noexcept { return strides_[axis]; }

  // Asserts the bounds. The elements must be aligned; copy unaligned ones first.
  template <std::convertible_to<std::int64_t>... Indices>
    requires(sizeof...(Indices) == Rank)
  T& operator()(Indices... indices) const noexcept {
    const Extents at{static_cast<std::int64_t>(indices)...};
    std::int64_t offset = 0;
    for (std::size_t axis = 0; axis < Rank; ++axis) {
      assert(at[axis] >= 0 && at[axis] < shape_[axis]);
      offset += at[axis] * strides_[axis];
    }
    return first_[offset];
  }

#if defined(__cpp_lib_mdspan)
  // Returns the same elements as a std::mdspan, where the C++ library has it. Throws
  // Error(kInvalidArgument) for strides that it cannot have: zero and negative ones.
  //   const auto pixels = tensor.view<std::uint8_t, 3>().mdspan();
  //   use(pixels[0, 0, 2]);
  auto mdspan() const {
    using Sizes = std::dextents<std::int64_t, Rank>;
    Extents strides = strides_;
    for (std::size_t axis = 0; axis < Rank; ++axis) {
      if (shape_[axis] <= 1) strides[axis] = 1;  // is never used
      if (strides[axis] <= 0)
        throw Error(Code::kInvalidArgument,
                    "dimension " + std::to_string(axis) + " has stride " +
                        std::to_string(strides[axis]) +
                        ", which std::mdspan lacks: use operator(), or publish a copy");
    }
    return std::mdspan<T, Sizes, std::layout_stride>(first_, {Sizes(shape_), strides});
  }
#endif

 private:
  T* first_;
  Extents shape_;
  Extents strides_;
};

namespace internal {

[[noreturn]] inline void refuse(const char* what, const std::string& why) {
  throw Error(Code::kInvalidArgument, std::string("this ") + what + " " + why);
}

// PyTorch may leave a sign or a conjugation to the reader of the elements.
inline void require_resolved(const Layout& layout, const char* what) {
  if (has(layout.flags, TensorFlags::kNegative) || has(layout.flags, TensorFlags::kConjugate))
    refuse(what,
           "is a negative or conjugate view of PyTorch, whose elements lie in memory without that: "
           "publish resolve_neg() or resolve_conj(), or read data() and layout().flags");
}
inline void require_type(const Layout& layout, DType dtype, const char* what) {
  require_resolved(layout, what);
  if (layout.dtype != dtype)
    refuse(what,
           "is " + std::string(name_of(layout.dtype)) + ", not " + std::string(name_of(dtype)));
}
inline void require_host(Device device, const char* what) {
  if (device.is_cuda())
    refuse(what, "lies on a GPU: give data() to a kernel, the host cannot use it");
}
inline void require_contiguous(const Layout& layout, const char* what) {
  if (!layout.is_contiguous())
    refuse(what, "is not contiguous: use view(), or data() and strides()");
}
inline void require_alignment(const void* data, std::size_t alignment, const char* what) {
  if (reinterpret_cast<std::uintptr_t>(data) % alignment != 0)
    throw Error(Code::kInvalidArgument, std::string("the elements of this ") + what +
                                            " are not aligned: use data() and memcpy");
}

template <typename T, std::size_t Rank>
ArrayView<T, Rank> array_view(T* first, const Layout& layout, const char* what) {
  require_type(layout, dtype_of<std::remove_const_t<T>>(), what);
  require_alignment(first, alignof(T), what);
  if (layout.shape.size() != Rank)
    refuse(what, "has " + std::to_string(layout.shape.size()) + " dimensions, not " +
                     std::to_string(Rank));
  typename ArrayView<T, Rank>::Extents shape{};
  typename ArrayView<T, Rank>::Extents strides{};
  for (std::size_t axis = 0; axis < Rank; ++axis) {
    shape[axis] = layout.shape[axis];
    strides[axis] = layout.strides[axis];
  }
  return {first, shape, strides};
}

}  // namespace internal
}  // namespace tensorbus::inline v0
