// sink.cpp for scores that lie on the GPU: only the number of the best class comes to the host.
//
//   cuda_sink FRAMES
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <tensorbus/cuda.hpp>
#include <tensorbus/tensorbus.hpp>

namespace {

__global__ void find_best(tensorbus::DeviceView<const float, 1> scores, int* best) {
  *best = 0;
  for (int i = 1; i < scores.extent(0); ++i)
    if (scores(i) > scores(*best)) *best = i;
}

void say_what_they_are(int count) {
  cudaStream_t stream;
  int* best;  // in pinned memory, which the kernel writes to
  if (cudaStreamCreate(&stream) != cudaSuccess ||
      cudaMallocHost(&best, sizeof *best) != cudaSuccess)
    throw tensorbus::Error(tensorbus::Code::kUnsupported, "there is no GPU here");
  tensorbus::Subscriber subscriber("model/scores");
  for (int heard = 0; heard < count; ++heard) {
    const auto sample = subscriber.receive(std::chrono::minutes(1));
    if (!sample) throw tensorbus::Error(tensorbus::Code::kTimeout, "no scores came in a minute");
    const auto frame = sample->fields().at("frame").as<std::int64_t>();
    const auto& scores = sample->tensor("scores");
    find_best<<<1, 1, 0, stream>>>(tensorbus::device_view<const float, 1>(scores, stream), best);
    cudaStreamSynchronize(stream);
    std::cout << "frame " << frame << ": class " << *best << std::endl;
  }
}

}  // namespace

int main(int argc, char** argv) try {
  say_what_they_are(argc > 1 ? std::atoi(argv[1]) : 100);
} catch (const tensorbus::Error& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
