// What holds of PyTorch's tensors over memory of the bus, in one process.
#include <ATen/ATen.h>

#include <tensorbus/tensorbus.hpp>
#include <tensorbus/torch.hpp>
#include <utility>

#include "checked.hpp"

namespace {

using tensorbus::Code;
using tensorbus::DType;

void a_tensor_holds_its_lease_and_its_views_do_too() {
  Topic topic;
  at::Tensor row;
  {
    const at::Tensor sent = at::arange(6).view({2, 3});
    row = tensorbus::to_torch(topic.through(tensorbus::view_of(sent)))[1];
  }
  topic.subscriber.close();
  CHECKED(row.equal(at::arange(3, 6)));
  CHECKED(topic.publisher.stats().bytes_in_flight > 0);
  row.reset();
  CHECKED(topic.gets_all_back());
}

void a_loan_is_written_by_pytorch() {
  Topic topic;
  tensorbus::Loan loan = topic.publisher.loan<float>({2, 3});
  at::Tensor out = tensorbus::to_torch(loan);
  at::mul_out(out, at::ones({2, 3}), at::full({2, 3}, 7.0));
  const at::Tensor received = tensorbus::to_torch(topic.through(std::move(loan)));
  CHECKED(received.equal(at::full({2, 3}, 7.0)));
  CHECKED(topic.publisher.stats().bytes_copied == 0);
}

void a_view_of_a_loan_is_not_copied() {
  Topic topic;
  const tensorbus::Loan loan = topic.publisher.loan<std::int64_t>({4});
  const at::Tensor numbers = tensorbus::to_torch(loan).copy_(at::arange(4)).slice(0, 1, 4, 2);
  const at::Tensor received = tensorbus::to_torch(topic.through(tensorbus::view_of(numbers)));
  CHECKED(received.equal(at::arange(1, 4, 2)) && received.stride(0) == 2);
  CHECKED(topic.publisher.stats().bytes_copied == 0);
}

void what_the_allocator_makes_is_not_copied() {
  Topic topic;
  static tensorbus::TorchAllocator allocator;
  c10::Allocator* const before = c10::GetCPUAllocator();
  c10::SetCPUAllocator(&allocator, 1);
  at::Tensor made = at::ones({1000, 1000});
  const at::Tensor small = at::ones({3});
  c10::SetCPUAllocator(before, 1);
  for (int i = 0; i < 2; ++i) {
    const at::Tensor row = made[i];
    CHECKED(tensorbus::to_torch(topic.through(tensorbus::view_of(row))).equal(row));
  }
  CHECKED(topic.publisher.stats().bytes_copied == 0);
  (void)topic.through(tensorbus::view_of(small));
  CHECKED(topic.publisher.stats().bytes_copied == small.nbytes());
  made.reset();
  CHECKED(topic.gets_all_back());
}

void gradients_go_through_what_was_received() {
  Topic topic;
  const at::Tensor weights = at::ones({3}).set_requires_grad(true);
  const at::Tensor received = tensorbus::to_torch(topic.through(tensorbus::view_of(weights)));
  CHECKED(received.requires_grad() && received.is_leaf());
  (received * 2).sum().backward();
  CHECKED(received.grad().equal(at::full({3}, 2.0)));
}

void what_runs_backwards_is_copied() {
  Topic topic;
  const std::int16_t numbers[] = {1, 2, 3, 4, 5, 6};
  const tensorbus::TensorView view{.data = numbers + 2, .layout = {DType::kInt16, {2, 3}, {3, -1}}};
  const tensorbus::Tensor tensor = topic.through(view);
  CHECKED(tensor.strides()[1] == -1);
  const at::Tensor expected = at::tensor({3, 2, 1, 6, 5, 4}, at::kShort).view({2, 3});
  CHECKED(tensorbus::to_torch(tensor).equal(expected));
}

void what_cannot_travel_is_refused() {
  const auto refused = [](const at::Tensor& tensor) {
    return refuses(Code::kUnsupported, [&] { (void)tensorbus::view_of(tensor); });
  };
  CHECKED(refused({}));
  CHECKED(refused(at::eye(3).to_sparse()));
  CHECKED(refused(at::eye(3).to_sparse_csr()));
  CHECKED(refused(at::quantize_per_tensor(at::ones({2}), 0.1, 0, at::kQInt8)));
  CHECKED(refused(at::empty({2}, at::device(at::kMeta))));
  CHECKED(refused(at::_efficientzerotensor({2}, at::kFloat)));
  CHECKED(refuses(Code::kUnsupported, [] { (void)tensorbus::dtype_of(at::kQInt8); }));
  CHECKED(refuses(Code::kUnsupported, [] { (void)tensorbus::scalar_type_of(DType::kFloat8E3M4); }));
}

// On the stand-in for CUDA's driver, of which this PyTorch knows nothing.
void a_tensor_on_a_gpu_needs_a_pytorch_that_can_use_it() {
  Topic topic;
  const tensorbus::Tensor tensor =
      topic.through(topic.publisher.loan<float>({3}, tensorbus::Device::cuda()));
  CHECKED(tensor.device() == tensorbus::Device::cuda());
  CHECKED(refuses(Code::kUnsupported, [&] { (void)tensorbus::to_torch(tensor); }));
}

void every_type_is_the_same_there_and_back() {
  for (const auto type : {at::kBool, at::kByte, at::kUInt16, at::kUInt64, at::kBFloat16,
                          at::kComplexHalf, at::kComplexDouble, at::kFloat8_e4m3fn, at::kBits8})
    CHECKED(tensorbus::scalar_type_of(tensorbus::dtype_of(type)) == type);
  CHECKED(tensorbus::dtype_of(at::kHalf) == DType::kFloat16);
  CHECKED(tensorbus::dtype_of(at::kComplexFloat) == DType::kComplex64);
}

}  // namespace

int main() {
  every_type_is_the_same_there_and_back();
  a_tensor_holds_its_lease_and_its_views_do_too();
  a_loan_is_written_by_pytorch();
  a_view_of_a_loan_is_not_copied();
  what_the_allocator_makes_is_not_copied();
  gradients_go_through_what_was_received();
  what_runs_backwards_is_copied();
  what_cannot_travel_is_refused();
  a_tensor_on_a_gpu_needs_a_pytorch_that_can_use_it();
}
