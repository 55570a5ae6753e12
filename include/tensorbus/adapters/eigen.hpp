#pragma once

// For programs with Eigen 3.3 or newer. Maps received tensors and loans as matrices of Eigen, and
// describes these for publishing, without a copy.
#include <Eigen/Core>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tensorbus/loan.hpp>
#include <tensorbus/tensor.hpp>
#include <tensorbus/values/array_view.hpp>
#include <tensorbus/values/dims.hpp>
#include <tensorbus/values/dtype.hpp>
#include <tensorbus/values/layout.hpp>
#include <tensorbus/values/message.hpp>
#include <type_traits>

namespace tensorbus::inline v0 {

// For rows, columns and vectors that are not packed: transposed tensors, every second element. Such
// maps are slower, because they are not vectorised.
using EigenAnyStrides = Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>;

namespace internal {

template <typename Scalar>
constexpr DType eigen_dtype_of() noexcept {
  if constexpr (std::is_same_v<Scalar, Eigen::half>)
    return DType::kFloat16;
  else
    return dtype_of<Scalar>();
}

// As tensors are: row-major, except for columns, which Eigen has as column-major only.
template <typename Scalar, int Rows, int Cols>
using EigenMatrix =
    Eigen::Matrix<Scalar, Rows, Cols, Cols == 1 && Rows != 1 ? Eigen::ColMajor : Eigen::RowMajor>;

// The sizes and strides of a matrix, in elements.
struct MatrixLayout {
  std::int64_t rows = 1;
  std::int64_t cols = 1;
  std::int64_t outer = 0;
  std::int64_t inner = 1;
};

inline void require_size(const char* what, const char* axis, std::int64_t size, int wanted) {
  if (wanted != Eigen::Dynamic && size != wanted)
    refuse(what, "has " + std::to_string(size) + ' ' + axis + ", not " + std::to_string(wanted));
}

template <int Rows, int Cols>
MatrixLayout matrix_layout_of(const Layout& layout, const char* what) {
  constexpr bool kVector = Rows == 1 || Cols == 1;
  const std::size_t dims = layout.shape.size();
  if (dims != 2 && !(kVector && dims == 1))
    refuse(what, "has " + std::to_string(dims) + " dimensions, not " +
                     (kVector ? "1 or 2: use view()" : "2: use view()"));
  require_resolved(layout, what);
  const bool column = dims == 1 && Cols == 1;
  const bool row = dims == 1 && Cols != 1;
  MatrixLayout made{.rows = row ? 1 : layout.shape[0], .cols = column ? 1 : layout.shape[dims - 1]};
  const std::int64_t down = row ? 0 : layout.strides[0];
  const std::int64_t across = column ? 0 : layout.strides[dims - 1];
  require_size(what, "rows", made.rows, Rows);
  require_size(what, "columns", made.cols, Cols);
  constexpr bool kRowMajor = EigenMatrix<char, Rows, Cols>::IsRowMajor;
  const std::int64_t inner_size = kRowMajor ? made.cols : made.rows;
  const std::int64_t outer_size = kRowMajor ? made.rows : made.cols;
  // The stride of a dimension with one element, or of an empty matrix, is never used.
  const bool empty = layout.elements() == 0;
  if (inner_size > 1 && !empty) made.inner = kRowMajor ? across : down;
  const bool has_outer = outer_size > 1 && !empty;
  made.outer = has_outer ? (kRowMajor ? down : across) : inner_size * made.inner;
  if (made.inner < 0 || made.outer < 0)
    refuse(what, "has negative strides, which Eigen lacks: publish a copy, or use view()");
  return made;
}

template <typename Matrix, typename Strides, typename T>
Eigen::Map<Matrix, Eigen::Unaligned, Strides> eigen_map(T* data, const Layout& layout,
                                                        const char* what) {
  using Scalar = std::remove_const_t<T>;
  require_type(layout, eigen_dtype_of<Scalar>(), what);
  require_alignment(data, alignof(Scalar), what);
  constexpr int kRows = std::remove_const_t<Matrix>::RowsAtCompileTime;
  constexpr int kCols = std::remove_const_t<Matrix>::ColsAtCompileTime;
  const MatrixLayout made = matrix_layout_of<kRows, kCols>(layout, what);
  const auto outer = static_cast<Eigen::Index>(made.outer);
  if constexpr (std::is_same_v<Strides, EigenAnyStrides>) {
    return {data, made.rows, made.cols, Strides(outer, static_cast<Eigen::Index>(made.inner))};
  } else {
    static_assert(std::is_same_v<Strides, Eigen::OuterStride<>>,
                  "the strides are Eigen::OuterStride<> or tensorbus::EigenAnyStrides");
    if (made.inner != 1)
      refuse(what, "does not have packed rows: use EigenAnyStrides, view(), or a copy");
    return {data, made.rows, made.cols, Strides(outer)};
  }
}

// An expression, such as a sum, has none.
template <typename Derived>
concept HasEigenMemory = (static_cast<unsigned>(Derived::Flags) & Eigen::DirectAccessBit) != 0;

}  // namespace internal

// Maps a received tensor of two dimensions as a matrix. Vectors (Cols == 1 or Rows == 1) map
// tensors of one dimension, too. The map owns nothing, like ArrayView: the tensor, or the sample
// that has it, must exist as long as the map. Rows may be padded; each must be packed. For any
// other strides pass EigenAnyStrides.
//
//   const auto weights = tensorbus::to_eigen<float>(sample->tensor("weights"));
//   const auto position = tensorbus::to_eigen<double, 3, 1>(sample->tensor("position"));
//   Eigen::VectorXf result = weights * input;
//
// Throws Error(kInvalidArgument) for another element type, shape or strides, for elements that are
// not aligned, and for a tensor on a GPU.
template <typename Scalar, int Rows = Eigen::Dynamic, int Cols = Eigen::Dynamic,
          typename Strides = Eigen::OuterStride<>>
auto to_eigen(const Tensor& tensor) {
  internal::require_host(tensor.device(), "tensor");
  return internal::eigen_map<const internal::EigenMatrix<Scalar, Rows, Cols>, Strides>(
      reinterpret_cast<const Scalar*>(tensor.data()), tensor.layout(), "tensor");
}
template <typename Scalar, int Rows = Eigen::Dynamic, int Cols = Eigen::Dynamic,
          typename Strides = Eigen::OuterStride<>>
auto to_eigen(Tensor&& tensor) = delete;  // the map would outlive it

// Like to_eigen(tensor), writable. Throws Error(kInvalidArgument) for a read-only tensor, too.
template <typename Scalar, int Rows = Eigen::Dynamic, int Cols = Eigen::Dynamic,
          typename Strides = Eigen::OuterStride<>>
auto to_mutable_eigen(const Tensor& tensor) {
  internal::require_host(tensor.device(), "tensor");
  return internal::eigen_map<internal::EigenMatrix<Scalar, Rows, Cols>, Strides>(
      reinterpret_cast<Scalar*>(tensor.mutable_data()), tensor.layout(), "tensor");
}
template <typename Scalar, int Rows = Eigen::Dynamic, int Cols = Eigen::Dynamic,
          typename Strides = Eigen::OuterStride<>>
auto to_mutable_eigen(Tensor&& tensor) = delete;

// Maps a loan, to compute a result in shared memory. The map does not keep the loan: do not use it
// after the loan was published or destroyed. Throws as above.
//
//   tensorbus::Loan loan = publisher.loan<float>({1000, 64});
//   tensorbus::to_eigen<float>(loan).noalias() = a * b;
//   publisher.publish(std::move(loan));
template <typename Scalar, int Rows = Eigen::Dynamic, int Cols = Eigen::Dynamic,
          typename Strides = Eigen::OuterStride<>>
auto to_eigen(const Loan& loan) {
  internal::require_host(loan.device(), "loan");
  return internal::eigen_map<internal::EigenMatrix<Scalar, Rows, Cols>, Strides>(
      reinterpret_cast<Scalar*>(loan.data()), loan.layout(), "loan");
}

// Describes a matrix, array, map or block for publishing, a queue or a share. Vectors have one
// dimension, all others two. Memory of a loan or a received tensor is sent by reference. Any other
// is copied once, by the call that gets the view, and must exist until then. Strides are kept: a
// column-major matrix, which is Eigen's default, arrives with column-major strides, and
// Tensor::as() refuses it. An expression has no memory: publish its eval().
//
//   publisher.publish(tensorbus::view_of(pose.inverse().eval()));
template <internal::HasEigenMemory Derived>
TensorView view_of(const Eigen::DenseBase<Derived>& dense) {
  const Derived& matrix = dense.derived();
  const std::int64_t inner = matrix.innerStride();
  const std::int64_t outer = matrix.outerStride();
  TensorView view;
  view.data = matrix.data();
  const DType dtype = internal::eigen_dtype_of<std::remove_const_t<typename Derived::Scalar>>();
  if constexpr (Derived::IsVectorAtCompileTime)
    view.layout = {dtype, {matrix.size()}, {inner}};
  else if constexpr (Derived::IsRowMajor)
    view.layout = {dtype, {matrix.rows(), matrix.cols()}, {outer, inner}};
  else
    view.layout = {dtype, {matrix.rows(), matrix.cols()}, {inner, outer}};
  return view;
}

}  // namespace tensorbus::inline v0
