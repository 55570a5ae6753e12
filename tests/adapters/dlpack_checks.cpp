// What holds of DLPack tensors over memory of the bus, in one process, with PyTorch on the other
// side of DLPack.
#include <ATen/ATen.h>
#include <ATen/DLConvertor.h>

#include <tensorbus/dlpack.hpp>
#include <tensorbus/tensorbus.hpp>
#include <utility>

#include "checked.hpp"

namespace {

using tensorbus::Code;

// A tensor of PyTorch's, by DLPack.
tensorbus::TensorView dlpack_of(const at::Tensor& tensor) {
  return tensorbus::view_of(tensorbus::DLPackOwner<DLManagedTensor>(at::toDLPack(tensor)));
}

template <typename Managed, typename Take>
void a_library_that_speaks_dlpack_holds_the_lease(Take take) {
  Topic topic;
  const at::Tensor sent = at::arange(12, at::kShort).view({3, 4}).t();
  at::Tensor taken;
  {
    const tensorbus::Tensor tensor = topic.through(dlpack_of(sent));
    taken = take(tensorbus::to_dlpack<Managed>(tensor).release());
    CHECKED(taken.const_data_ptr() == tensor.data());
  }
  CHECKED(taken.equal(sent) && taken.strides() == sent.strides());
  CHECKED(topic.publisher.stats().bytes_in_flight > 0);
  taken.reset();
  CHECKED(topic.gets_all_back());
}

void who_takes_nothing_gives_the_lease_back() {
  Topic topic;
  {
    const auto unused = tensorbus::to_dlpack(topic.through(dlpack_of(at::ones({3}))));
  }
  CHECKED(topic.gets_all_back());
}

void only_the_versioned_kind_says_that_it_is_read_only() {
  Topic topic;
  const tensorbus::Tensor tensor = topic.through(dlpack_of(at::ones({3})));
  const auto managed = tensorbus::to_dlpack<DLManagedTensorVersioned>(tensor);
  CHECKED(managed->flags == DLPACK_FLAG_BITMASK_READ_ONLY);
  CHECKED(managed->version.major == DLPACK_MAJOR_VERSION);
}

void a_tensor_is_owned_for_as_long_as_it_is_read() {
  bool deleted = false;
  float numbers[] = {1, 2, 3};
  std::int64_t shape[] = {3};
  DLManagedTensor theirs{};
  theirs.dl_tensor = {numbers, {kDLCPU, 0}, 1, {kDLFloat, 32, 1}, shape, nullptr, 4};
  theirs.dl_tensor.shape[0] = 2;
  theirs.manager_ctx = &deleted;
  theirs.deleter = [](DLManagedTensor* self) { *static_cast<bool*>(self->manager_ctx) = true; };
  Topic topic;
  const tensorbus::Tensor tensor =
      topic.through(tensorbus::view_of(tensorbus::DLPackOwner<DLManagedTensor>(&theirs)));
  CHECKED(deleted);  // it was copied
  CHECKED(tensor.as<float>().size() == 2 && tensor.as<float>()[0] == 2);
}

// On the stand-in for CUDA's driver.
void a_tensor_on_a_gpu_says_so() {
  Topic topic;
  const tensorbus::Tensor tensor =
      topic.through(topic.publisher.loan<float>({3}, tensorbus::Device::cuda()));
  const auto managed = tensorbus::to_dlpack(tensor);
  const DLTensor& theirs = managed->dl_tensor;
  CHECKED(theirs.device.device_type == kDLCUDA && theirs.device.device_id == 0);
  CHECKED(theirs.data == tensor.data() && theirs.shape[0] == 3);
  const tensorbus::TensorView view = tensorbus::view_of(theirs);
  CHECKED(view.device == tensorbus::Device::cuda() && view.data == tensor.data());
}

void what_cannot_travel_is_refused() {
  std::int64_t shape[] = {3};
  DLTensor tensor{nullptr, {kDLMetal, 0}, 1, {kDLFloat, 32, 1}, shape, nullptr, 0};
  CHECKED(refuses(Code::kUnsupported, [&] { (void)tensorbus::view_of(tensor); }));
  tensor.device.device_type = kDLCPU;
  tensor.dtype = {kDLFloat, 32, 4};
  CHECKED(refuses(Code::kUnsupported, [&] { (void)tensorbus::view_of(tensor); }));

  Topic topic;
  const std::uint8_t bits = 1;
  const tensorbus::TensorView view{
      .data = &bits, .layout = tensorbus::Layout::contiguous(tensorbus::DType::kInt4, {1})};
  const tensorbus::Tensor narrow = topic.through(view);
  CHECKED(refuses(Code::kUnsupported, [&] { (void)tensorbus::to_dlpack(narrow); }));
}

}  // namespace

int main() {
  a_library_that_speaks_dlpack_holds_the_lease<DLManagedTensor>(
      [](DLManagedTensor* taken) { return at::fromDLPack(taken); });
  a_library_that_speaks_dlpack_holds_the_lease<DLManagedTensorVersioned>(
      [](DLManagedTensorVersioned* taken) { return at::fromDLPackVersioned(taken); });
  who_takes_nothing_gives_the_lease_back();
  only_the_versioned_kind_says_that_it_is_read_only();
  a_tensor_is_owned_for_as_long_as_it_is_read();
  a_tensor_on_a_gpu_says_so();
  what_cannot_travel_is_refused();
}
