// Asks both services of ./mean_service at once, in one thread: each call has a coroutine, which
// waits for its reply without blocking the thread.
#include <chrono>
#include <cstdint>
#include <exception>
#include <iostream>
#include <numeric>

#include "mean.hpp"

namespace {

using namespace tensorbus;

constexpr ClientOptions kOptions{.timeout = std::chrono::seconds(10)};

Task ask_for_numbers(Executor& executor, int& left) {
  const Loan numbers = empty(Layout::contiguous(DType::kFloat32, {5}));
  std::iota(numbers.as<float>().begin(), numbers.as<float>().end(), 0.0F);
  const Client client("mean", kOptions);
  const Content request(numbers.view());
  const Content reply = co_await executor.call(client, request);
  std::cout << "mean=" << reply.fields.as<double>() << std::endl;
  if (--left == 0) executor.stop();
}

Task ask_for_image(Executor& executor, int& left) {
  Loan pixels = empty(Layout::contiguous(DType::kUInt8, {2, 2, 3}));
  std::iota(pixels.as<std::uint8_t>().begin(), pixels.as<std::uint8_t>().end(), std::uint8_t{0});
  const Client client("image/mean", kOptions);
  const ImageMessage request{.data = std::move(pixels), .encoding = "rgb8"};
  const auto mean = co_await executor.call<Mean>(client, request);
  std::cout << "image mean=" << mean.mean << std::endl;
  if (--left == 0) executor.stop();
}

}  // namespace

int main() {
  try {
    Executor executor;
    int left = 2;
    executor.spawn(ask_for_numbers(executor, left));
    executor.spawn(ask_for_image(executor, left));
    executor.run();
  } catch (const std::exception& error) {  // a service failed, or there is none
    std::cerr << error.what() << '\n';
    return 1;
  }
}
