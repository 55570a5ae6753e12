// Receives pictures as tensors of PyTorch, and publishes each as a network wants it: float32,
// channels first, of mean 0 and deviation 1 in each channel.
//
//   normalise PICTURES
#include <ATen/ATen.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <tensorbus/tensorbus.hpp>
#include <tensorbus/torch.hpp>
#include <utility>

namespace {

void normalise_into(at::Tensor out, const at::Tensor& picture) {
  at::sub_out(out, picture, picture.mean({1, 2}, true));
  out.div_(out.std({1, 2}, false, true));
}

void normalise(int count) {
  tensorbus::Publisher publisher("network/input", {.reliable = true});
  tensorbus::Subscriber subscriber("camera/image");
  publisher.wait_for_subscribers(1, std::chrono::minutes(1));
  for (int done = 0; done < count; ++done) {
    auto sample = subscriber.receive(std::chrono::minutes(1));
    if (!sample) throw tensorbus::Error(tensorbus::Code::kTimeout, "no picture came in a minute");
    // The same memory. The tensor holds the lease; the sample is not needed any more.
    const at::Tensor picture = tensorbus::to_torch(sample->tensor());
    sample.reset();

    const at::Tensor planes = picture.permute({2, 0, 1}).to(at::kFloat);
    tensorbus::Loan input = publisher.loan<float>({3, planes.size(1), planes.size(2)});
    normalise_into(tensorbus::to_torch(input), planes);
    publisher.publish(std::move(input));
  }
}

}  // namespace

int main(int argc, char** argv) try {
  normalise(argc > 1 ? std::atoi(argv[1]) : 100);
} catch (const tensorbus::Error& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
