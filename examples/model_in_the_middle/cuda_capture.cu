// capture.cpp with frames that are drawn on the GPU, and stay there.
//
//   cuda_capture FRAMES
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <tensorbus/cuda.hpp>
#include <tensorbus/tensorbus.hpp>
#include <utility>

namespace {

__global__ void draw(tensorbus::DeviceView<std::uint8_t, 3> picture, int number) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x;
  const int y = blockIdx.y;
  if (x >= picture.extent(1)) return;
  for (int c = 0; c < picture.extent(2); ++c)
    picture(y, x, c) = static_cast<std::uint8_t>(x * (c + 1) + y * number);
}

void publish_frames(int count) {
  cudaStream_t stream;
  if (cudaStreamCreate(&stream) != cudaSuccess)
    throw tensorbus::Error(tensorbus::Code::kUnsupported, "there is no GPU here");
  tensorbus::Publisher publisher("camera/frame", {.reliable = true});
  publisher.wait_for_subscribers(1, std::chrono::minutes(1));
  for (int number = 0; number < count; ++number) {
    const auto device = tensorbus::Device::cuda();
    tensorbus::Loan frame = publisher.loan<std::uint8_t>({120, 160, 3}, device);
    draw<<<dim3(2, 120), 128, 0, stream>>>(tensorbus::device_view<std::uint8_t, 3>(frame), number);
    // Who receives it reads it when the kernel has run; nobody waits here.
    publisher.publish(std::move(frame), stream);
  }
  cudaStreamSynchronize(stream);
}

}  // namespace

int main(int argc, char** argv) try {
  publish_frames(argc > 1 ? std::atoi(argv[1]) : 100);
} catch (const tensorbus::Error& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
