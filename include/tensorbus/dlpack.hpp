#pragma once

// For programs that have DLPack's header (or PyTorch's copy of it). Exchanges tensors with any
// library that supports DLPack, without a copy.
#if __has_include(<dlpack/dlpack.h>)
#include <dlpack/dlpack.h>
#else
#include <ATen/dlpack.h>
#endif

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <tensorbus/internal/dlpack_types.hpp>
#include <tensorbus/tensor.hpp>
#include <tensorbus/values/device.hpp>
#include <tensorbus/values/error.hpp>
#include <tensorbus/values/layout.hpp>
#include <tensorbus/values/message.hpp>
#include <utility>

namespace tensorbus::inline v0 {

// Owns a DLPack tensor (DLManagedTensor or DLManagedTensorVersioned): calls its deleter.
struct DLPackDeleter {
  template <typename Managed>
  void operator()(Managed* managed) const noexcept {
    if (managed->deleter != nullptr) managed->deleter(managed);
  }
};
template <typename Managed>
using DLPackOwner = std::unique_ptr<Managed, DLPackDeleter>;

namespace internal {

template <typename Managed>
inline constexpr bool kIsVersioned = requires(Managed managed) { managed.version; };

// A received tensor, kept alive by its DLPack tensor.
template <typename Managed>
struct DLPackTensor {
  explicit DLPackTensor(const Tensor& received) : tensor(received) {}

  Managed managed{};
  Tensor tensor;  // holds the lease; shape and strides point into it
};

inline DLDevice dlpack_device_of(Device device) noexcept {
  if (device.is_cuda()) return {kDLCUDA, device.ordinal};
  return {kDLCPU, 0};
}

inline DLTensor dlpack_tensor_of(const Tensor& tensor, const DLPackType& type) noexcept {
  DLTensor made{};
  made.data = const_cast<std::byte*>(tensor.data());
  made.device = dlpack_device_of(tensor.device());
  made.ndim = static_cast<std::int32_t>(tensor.shape().size());
  made.dtype = {type.code, type.bits, type.lanes};
  made.shape = const_cast<std::int64_t*>(tensor.shape().begin());
  made.strides = const_cast<std::int64_t*>(tensor.strides().begin());
  return made;
}

}  // namespace internal

// Makes a DLPack tensor over a received tensor. It holds the lease until its deleter is called, in
// any thread:
//
//   auto managed = tensorbus::to_dlpack(sample->tensor());
//   their_array = their::from_dlpack(managed.release());
//
// Only DLManagedTensorVersioned can mark a tensor as read-only. With DLManagedTensor, the program
// must make sure that the library does not write to a read-only tensor. For a tensor on a GPU, call
// Tensor::use_on() for each stream that works with it. Throws Error(kUnsupported) for element types
// without a name in DLPack.
template <typename Managed = DLManagedTensor>
DLPackOwner<Managed> to_dlpack(const Tensor& tensor) {
  const auto type = internal::dlpack_type_of(tensor.dtype());
  if (!type)
    throw Error(Code::kUnsupported,
                "DLPack has no name for " + std::string(name_of(tensor.dtype())));
  using Held = internal::DLPackTensor<Managed>;
  auto held = std::make_unique<Held>(tensor);
  Managed& managed = held->managed;
  managed.dl_tensor = internal::dlpack_tensor_of(held->tensor, *type);
  managed.manager_ctx = held.get();
  managed.deleter = [](Managed* self) { delete static_cast<Held*>(self->manager_ctx); };
#ifdef DLPACK_FLAG_BITMASK_READ_ONLY
  if constexpr (internal::kIsVersioned<Managed>) {
    managed.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
    managed.flags = tensor.writable() ? 0 : DLPACK_FLAG_BITMASK_READ_ONLY;
  }
#endif
  return DLPackOwner<Managed>(&held.release()->managed);
}

// Describes another library's tensor for publishing or sharing. The library still owns the tensor,
// which must exist until the call that gets the view returns. `stream`: see TensorView. Throws
// Error(kUnsupported) if it is neither in host memory nor on a CUDA GPU, or if its element type is
// unknown here.
inline TensorView view_of(const DLTensor& tensor, void* stream = nullptr) {
  const bool on_device = tensor.device.device_type == kDLCUDA;
  if (!on_device && tensor.device.device_type != kDLCPU && tensor.device.device_type != kDLCUDAHost)
    throw Error(Code::kUnsupported,
                "tensors on DLPack device type " +
                    std::to_string(static_cast<int>(tensor.device.device_type)) +
                    " cannot be sent: publish a copy in host memory");
  const internal::DLPackType type{tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes};
  const auto dtype = internal::dtype_of_dlpack(type);
  if (!dtype)
    throw Error(Code::kUnsupported, "elements of DLPack type (" + std::to_string(type.code) + ", " +
                                        std::to_string(type.bits) + ", " +
                                        std::to_string(type.lanes) + ") cannot be sent");
  const auto dims = static_cast<std::size_t>(tensor.ndim);
  const std::span<const std::int64_t> shape(tensor.shape, dims);
  TensorView view;
  view.data = static_cast<const std::byte*>(tensor.data) + tensor.byte_offset;
  view.device = on_device ? Device::cuda(tensor.device.device_id) : Device::host();
  view.stream = stream;
  if (tensor.strides == nullptr)
    view.layout = Layout::contiguous(*dtype, Dims(shape));
  else
    view.layout = {*dtype, Dims(shape), Dims(std::span<const std::int64_t>(tensor.strides, dims))};
  return view;
}

// Like view_of() above, but takes over the tensor and keeps it until its readers are done. A tensor
// on a GPU is then published in place where the driver supports this.
//
//   publisher.publish(tensorbus::view_of(tensorbus::DLPackOwner<DLManagedTensor>(theirs)));
template <typename Managed>
TensorView view_of(DLPackOwner<Managed> owner, void* stream = nullptr) {
  TensorView view = view_of(owner->dl_tensor, stream);
  view.keeper = std::shared_ptr<const void>(std::move(owner));
  return view;
}

}  // namespace tensorbus::inline v0
