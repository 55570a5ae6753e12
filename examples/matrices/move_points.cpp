// Receives point clouds of shape (N, 3), and publishes each as it is after a turn and a move.
//
//   move_points CLOUDS
#include <Eigen/Geometry>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <tensorbus/adapters/eigen.hpp>
#include <tensorbus/tensorbus.hpp>
#include <utility>

namespace {

void run(int count) {
  const Eigen::Matrix3f turn = Eigen::AngleAxisf(0.5F, Eigen::Vector3f::UnitZ()).toRotationMatrix();
  const Eigen::RowVector3f move(1, 2, 3);

  tensorbus::Publisher publisher("cloud/moved", {.reliable = true});
  tensorbus::Subscriber subscriber("cloud");
  publisher.wait_for_subscribers(1, std::chrono::minutes(1));
  for (const tensorbus::Sample& sample : subscriber.samples(std::chrono::minutes(1))) {
    // Both matrices are in shared memory: nothing is copied.
    const auto points = tensorbus::to_eigen<float, Eigen::Dynamic, 3>(sample.tensor());
    tensorbus::Loan loan = publisher.loan<float>({points.rows(), 3});
    auto moved = tensorbus::to_eigen<float, Eigen::Dynamic, 3>(loan);
    moved.noalias() = points * turn.transpose();
    moved.rowwise() += move;
    publisher.publish(std::move(loan));
    if (--count == 0) return;
  }
  throw tensorbus::Error(tensorbus::Code::kTimeout, "no cloud came in a minute");
}

}  // namespace

int main(int argc, char** argv) try {
  run(argc > 1 ? std::atoi(argv[1]) : 100);
} catch (const tensorbus::Error& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
