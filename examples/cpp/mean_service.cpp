// Offers two services: "mean" answers a tensor of float32 with its mean, and "image/mean" an image
// (tensorbus.ImageMessage, of uint8) with the mean of each row, too. ./mean_client asks them, and
// so may Python:
//
//   tb.Client("mean").call_sync(np.arange(5, dtype=np.float32))
//   tb.Client("image/mean", tb.ImageMessage, Mean).call_sync(tb.ImageMessage(pixels, "rgb8"))
//
// Runs until it is ended.
#include <cstddef>
#include <cstdint>
#include <exception>
#include <iostream>
#include <numeric>
#include <span>
#include <stdexcept>

#include "mean.hpp"

namespace {

template <typename T>
double mean_of(std::span<const T> values) {
  if (values.empty()) throw std::invalid_argument("nothing has no mean");  // the client gets it
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

Mean mean_of(const tensorbus::ImageMessage& image) {
  const tensorbus::Tensor& pixels = image.data.tensor();
  const auto bytes = pixels.as<std::uint8_t>();
  const double mean = mean_of(bytes);
  const std::int64_t rows = pixels.shape()[0];
  const std::size_t row_bytes = bytes.size() / static_cast<std::size_t>(rows);
  // Shared memory: the client gets it by reference.
  const auto layout = tensorbus::Layout::contiguous(tensorbus::DType::kFloat32, {rows});
  tensorbus::Loan by_row = tensorbus::empty(layout);
  for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row)
    by_row.as<float>()[row] =
        static_cast<float>(mean_of(bytes.subspan(row * row_bytes, row_bytes)));
  return {.mean = mean, .by_row = std::move(by_row)};
}

}  // namespace

int main() {
  using namespace tensorbus;
  try {
    Executor executor;
    executor.serve(Service("mean", [](const Content& request) {
      return Content(mean_of(request.tensor().as<float>()));
    }));
    executor.serve(Service::of<ImageMessage, Mean>(
        "image/mean", [](const ImageMessage& image) { return mean_of(image); }));
    executor.run();
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
