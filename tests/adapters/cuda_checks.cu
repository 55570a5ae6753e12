// What holds of typed device pointers, on the stand-in for CUDA's driver: nothing is asked of
// CUDA's runtime, which does not know it.
#include <cstdint>
#include <tensorbus/cuda.hpp>
#include <tensorbus/tensorbus.hpp>
#include <utility>

#include "checked.hpp"

namespace {

using tensorbus::Code;
using tensorbus::Device;
constexpr cudaStream_t kDefault = nullptr;

// Views are for kernels.
[[maybe_unused]] __global__ void scale(tensorbus::DeviceView<float, 2> rows,
                                       tensorbus::DeviceView<const float, 2> from, float factor) {
  rows(blockIdx.x, threadIdx.x) = from(blockIdx.x, threadIdx.x) * factor;
}

void a_loan_and_what_is_received_of_it_have_the_same_view() {
  Topic topic;
  tensorbus::Loan loan = topic.publisher.loan<float>({2, 3}, Device::cuda());
  const auto written = tensorbus::device_view<float, 2>(loan);
  CHECKED(written.data() == tensorbus::device_pointer<float>(loan));
  CHECKED(written.extent(0) == 2 && written.extent(1) == 3);
  CHECKED(written.stride(0) == 3 && written.stride(1) == 1);
  CHECKED(&written(1, 2) == written.data() + 5);

  const tensorbus::Tensor tensor = topic.through(std::move(loan));
  const auto read = tensorbus::device_view<const float, 2>(tensor, kDefault);
  CHECKED(reinterpret_cast<const std::byte*>(read.data()) == tensor.data());
  CHECKED(read.data() == tensorbus::device_pointer<const float>(tensor, kDefault));
}

void strides_are_kept() {
  Topic topic;
  const tensorbus::Loan loan = topic.publisher.loan<float>({2, 3}, Device::cuda());
  tensorbus::TensorView turned = loan.view();
  std::swap(turned.layout.shape[0], turned.layout.shape[1]);
  std::swap(turned.layout.strides[0], turned.layout.strides[1]);
  const tensorbus::Tensor tensor = topic.through(turned);
  const auto view = tensorbus::device_view<const float, 2>(tensor, kDefault);
  CHECKED(&view(2, 1) == view.data() + 5);
  CHECKED(refuses(Code::kInvalidArgument,
                  [&] { (void)tensorbus::device_pointer<const float>(tensor, kDefault); }));
}

void what_it_is_not_is_refused() {
  Topic topic;
  tensorbus::Loan loan = topic.publisher.loan<float>({2, 3}, Device::cuda());
  CHECKED(refuses(Code::kInvalidArgument, [&] { (void)tensorbus::device_view<float, 1>(loan); }));
  CHECKED(refuses(Code::kInvalidArgument, [&] { (void)tensorbus::device_pointer<int>(loan); }));
  const tensorbus::Tensor tensor = topic.through(std::move(loan));
  CHECKED(refuses(Code::kInvalidArgument,
                  [&] { (void)tensorbus::device_view<float, 2>(tensor, kDefault); }));  // read-only
  const tensorbus::Loan host = topic.publisher.loan<float>({2});
  CHECKED(refuses(Code::kInvalidArgument, [&] { (void)tensorbus::device_view<float, 1>(host); }));
}

void raw_handles_are_refused_with_a_reason() {
  Topic topic;
  const tensorbus::Loan loan = topic.publisher.loan<float>({2}, Device::cuda());
  const float host = 0;
  CHECKED(refuses(Code::kUnsupported, [&] { (void)tensorbus::ipc_handle(loan.data(), 8); }));
  CHECKED(refuses(Code::kInvalidArgument, [&] { (void)tensorbus::ipc_handle(&host, 4); }));
  const cudaIpcMemHandle_t nothing{};
  const auto open = [&](const tensorbus::Dims& strides) {
    (void)tensorbus::open_ipc<float>(nothing, {2}, {.strides = strides, .device = Device::cuda()});
  };
  CHECKED(refuses(Code::kClosed, [&] { open({}); }));
  CHECKED(refuses(Code::kInvalidArgument, [&] { open({1, 1}); }));
}

}  // namespace

int main() {
  a_loan_and_what_is_received_of_it_have_the_same_view();
  strides_are_kept();
  what_it_is_not_is_refused();
  raw_handles_are_refused_with_a_reason();
}
