// What holds of Eigen's matrices over memory of the bus, in one process.
#include <array>
#include <complex>
#include <concepts>
#include <cstdint>
#include <tensorbus/adapters/eigen.hpp>
#include <tensorbus/tensorbus.hpp>
#include <utility>

#include "../checked.hpp"

namespace {

using Eigen::Dynamic;
using tensorbus::Code;
using tensorbus::Dims;
using tensorbus::DType;
using tensorbus::EigenAnyStrides;
using tensorbus::Layout;
using tensorbus::TensorView;
using tensorbus::to_eigen;
using tensorbus::view_of;

// A map of a temporary, and a view of an expression, have no memory.
template <typename Given>
concept CanBeMapped = requires(Given&& given) { to_eigen<float>(std::forward<Given>(given)); };
static_assert(CanBeMapped<const tensorbus::Tensor&> && !CanBeMapped<tensorbus::Tensor>);
template <typename Given>
concept HasView = requires(const Given& given) { view_of(given); };
static_assert(HasView<Eigen::Matrix3f> && HasView<Eigen::Block<Eigen::MatrixXd>>);
static_assert(!HasView<decltype(Eigen::Matrix3f() + Eigen::Matrix3f())>);

Eigen::MatrixXf numbered(Eigen::Index rows, Eigen::Index cols) {
  return Eigen::VectorXf::LinSpaced(rows * cols, 0, static_cast<float>(rows * cols - 1))
      .reshaped(rows, cols);
}

void a_matrix_of_any_storage_order_arrives() {
  Topic topic;
  const Eigen::MatrixXf columns = numbered(3, 4);
  const Eigen::Matrix<float, Dynamic, Dynamic, Eigen::RowMajor> rows = columns;
  const tensorbus::Tensor by_columns = topic.through(view_of(columns));
  CHECKED(by_columns.shape() == (Dims{3, 4}) && by_columns.strides() == (Dims{1, 3}));
  CHECKED((to_eigen<float, Dynamic, Dynamic, EigenAnyStrides>(by_columns)) == columns);
  CHECKED(refuses(Code::kInvalidArgument, [&] { (void)to_eigen<float>(by_columns); }));
  const tensorbus::Tensor by_rows = topic.through(view_of(rows));
  CHECKED(by_rows.layout() == Layout::contiguous(DType::kFloat32, {3, 4}));
  CHECKED(to_eigen<float>(by_rows) == columns);
  CHECKED((to_eigen<float, 3, 4>(by_rows)) == columns);
  CHECKED((to_eigen<float, Dynamic, 4>(by_rows) * Eigen::Vector4f::Ones()) ==
          columns.rowwise().sum());
}

void a_vector_has_one_dimension() {
  Topic topic;
  const Eigen::Vector3d position(1, 2, 3);
  const tensorbus::Tensor tensor = topic.through(view_of(position));
  CHECKED(tensor.layout() == Layout::contiguous(DType::kFloat64, {3}));
  CHECKED((to_eigen<double, 3, 1>(tensor)) == position);
  CHECKED((to_eigen<double, 1, Dynamic>(tensor)) == position.transpose());
  CHECKED(refuses(Code::kInvalidArgument, [&] { (void)to_eigen<double>(tensor); }));
  const std::array<double, 3> numbers{1, 2, 3};
  const tensorbus::Tensor column = topic.through(TensorView::of(numbers.data(), {3, 1}));
  CHECKED((to_eigen<double, Dynamic, 1>(column)) == position);
  const tensorbus::Tensor row = topic.through(TensorView::of(numbers.data(), {1, 3}));
  CHECKED((to_eigen<double, 1, 3>(row)) == position.transpose());
  CHECKED(refuses(Code::kInvalidArgument, [&] { (void)to_eigen<double, Dynamic, 1>(row); }));
}

void memory_of_the_bus_is_computed_in_place_and_its_blocks_are_not_copied() {
  Topic topic;
  const tensorbus::Loan loan = tensorbus::empty(Layout::contiguous(DType::kFloat32, {4, 6}));
  auto matrix = to_eigen<float>(loan);
  matrix.noalias() = numbered(4, 2) * numbered(2, 6);
  const Eigen::MatrixXf expected = numbered(4, 2) * numbered(2, 6);
  const auto received = [&](const auto& part) {
    const tensorbus::Tensor tensor = topic.through(view_of(part));
    return Eigen::MatrixXf(to_eigen<float, Dynamic, Dynamic, EigenAnyStrides>(tensor));
  };
  CHECKED(received(matrix) == expected);
  CHECKED(received(matrix.block(1, 1, 2, 3)) == expected.block(1, 1, 2, 3));
  CHECKED(received(matrix.transpose()) == expected.transpose());
  const tensorbus::Tensor column = topic.through(view_of(matrix.col(2)));
  CHECKED(column.shape() == Dims{4} && column.strides() == Dims{6});
  CHECKED((to_eigen<float, Dynamic, 1, EigenAnyStrides>(column)) == expected.col(2));
  const tensorbus::Tensor padded = topic.through(view_of(matrix.leftCols(3)));
  CHECKED(to_eigen<float>(padded) == expected.leftCols(3));
  CHECKED(topic.publisher.stats().bytes_copied == 0);
}

void a_tensor_is_written_where_that_is_allowed() {
  Topic topic;
  tensorbus::Subscriber editing("topic", {.access = tensorbus::Access::kPrivate});
  CHECKED(topic.publisher.wait_for_subscribers(2, kLong) == tensorbus::Outcome::kDone);
  const Eigen::MatrixXf ones = Eigen::MatrixXf::Ones(2, 2);
  const tensorbus::Tensor read_only = topic.through(view_of(ones));
  CHECKED(refuses(Code::kInvalidArgument,
                  [&] { (void)tensorbus::to_mutable_eigen<float, 2, 2>(read_only); }));
  const tensorbus::Sample sample = editing.receive(kLong).value();
  const tensorbus::Tensor& tensor = sample.tensor();
  tensorbus::to_mutable_eigen<float, 2, 2, EigenAnyStrides>(tensor) *= 5;
  CHECKED((to_eigen<float, 2, 2, EigenAnyStrides>(tensor)) == 5 * ones);
}

void what_does_not_match_is_refused() {
  Topic topic;
  const Eigen::Matrix<float, 2, 3, Eigen::RowMajor> sent = numbered(2, 3);
  const tensorbus::Tensor tensor = topic.through(view_of(sent));
  const auto refused = [](auto call) { return refuses(Code::kInvalidArgument, call); };
  CHECKED(refused([&] { (void)to_eigen<double>(tensor); }));
  CHECKED(refused([&] { (void)to_eigen<float, 3, 3>(tensor); }));
  CHECKED(refused([&] { (void)to_eigen<float, 2, 2>(tensor); }));
  const TensorView backwards{sent.data() + 5, {DType::kFloat32, {6}, {-1}}};
  const tensorbus::Tensor reversed = topic.through(backwards);
  CHECKED(refused([&] { (void)to_eigen<float, Dynamic, 1, EigenAnyStrides>(reversed); }));
  const Layout negative =
      Layout::contiguous(DType::kFloat32, {6}, tensorbus::TensorFlags::kNegative);
  const tensorbus::Tensor lazy = topic.through(TensorView{sent.data(), negative});
  CHECKED(refused([&] { (void)to_eigen<float, Dynamic, 1>(lazy); }));
  // On the stand-in for CUDA's driver.
  const tensorbus::Loan loan = topic.publisher.loan<float>({3, 3}, tensorbus::Device::cuda());
  CHECKED(refused([&] { (void)to_eigen<float>(loan); }));
}

void empty_matrices_and_other_scalars_arrive() {
  Topic topic;
  const tensorbus::Tensor empty = topic.through(view_of(Eigen::MatrixXi(0, 3).eval()));
  CHECKED(to_eigen<int>(empty).rows() == 0 && to_eigen<int>(empty).cols() == 3);
  const Eigen::Matrix<Eigen::half, 2, 1> halves(Eigen::half(0.5F), Eigen::half(2.0F));
  const tensorbus::Tensor tensor = topic.through(view_of(halves));
  CHECKED(tensor.dtype() == DType::kFloat16);
  CHECKED((to_eigen<Eigen::half, 2, 1>(tensor)) == halves);
  const Eigen::ArrayXXcd complexes = Eigen::ArrayXXcd::Constant(2, 2, {1, 2});
  const tensorbus::Tensor of_array = topic.through(view_of(complexes));
  CHECKED(of_array.dtype() == DType::kComplex128);
  CHECKED(
      (to_eigen<std::complex<double>, 2, 2, EigenAnyStrides>(of_array).array() == complexes).all());
}

}  // namespace

int main() {
  a_matrix_of_any_storage_order_arrives();
  a_vector_has_one_dimension();
  memory_of_the_bus_is_computed_in_place_and_its_blocks_are_not_copied();
  a_tensor_is_written_where_that_is_allowed();
  what_does_not_match_is_refused();
  empty_matrices_and_other_scalars_arrive();
}
