// Asks the services of ./mean_service, or of a Python program that offers the same, for the means
// of a tensor and of an image.
#include <chrono>
#include <cstdint>
#include <exception>
#include <iostream>
#include <numeric>

#include "mean.hpp"

namespace {

using namespace tensorbus;

constexpr std::chrono::seconds kTimeout(10);

void ask_for_numbers() {
  // In shared memory: the service gets it by reference.
  const Loan numbers = empty(Layout::contiguous(DType::kFloat32, {5}));
  std::iota(numbers.as<float>().begin(), numbers.as<float>().end(), 0.0F);
  Client client("mean", {.timeout = kTimeout});
  const Content reply = client.call({numbers.view()});
  std::cout << "mean=" << reply.fields.as<double>() << std::endl;
}

void ask_for_image() {
  Loan pixels = empty(Layout::contiguous(DType::kUInt8, {2, 2, 3}));
  std::iota(pixels.as<std::uint8_t>().begin(), pixels.as<std::uint8_t>().end(), std::uint8_t{0});
  Client client("image/mean", {.timeout = kTimeout});
  const auto mean = client.call<Mean>(ImageMessage{.data = std::move(pixels), .encoding = "rgb8"});
  std::cout << "mean=" << mean.mean << " by_row=";
  for (const float value : mean.by_row.tensor().as<float>()) std::cout << value << ' ';
  std::cout << std::endl;
}

}  // namespace

int main() {
  try {
    ask_for_numbers();
    ask_for_image();
  } catch (const ServiceError& error) {  // the service failed
    std::cerr << error.what() << '\n' << error.trace();
    return 1;
  } catch (const std::exception& error) {  // there is none, or it means something else
    std::cerr << error.what() << '\n';
    return 1;
  }
}
