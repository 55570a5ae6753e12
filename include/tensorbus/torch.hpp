#pragma once

// For programs with libtorch (PyTorch 2.6 or newer). Converts received tensors and loans to
// at::Tensor, and at::Tensor to views for publishing, without a copy.
#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/ScalarType.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <tensorbus/loan.hpp>
#include <tensorbus/participant.hpp>
#include <tensorbus/tensor.hpp>
#include <tensorbus/values/device.hpp>
#include <tensorbus/values/dtype.hpp>
#include <tensorbus/values/error.hpp>
#include <tensorbus/values/layout.hpp>
#include <tensorbus/values/message.hpp>
#include <utility>
#include <vector>

namespace tensorbus::inline v0 {

namespace internal {

// Element types are matched by PyTorch's names.
inline std::string_view torch_name_of(c10::ScalarType type) {
  static const auto names = [] {
    std::array<std::string, static_cast<std::size_t>(c10::ScalarType::NumOptions)> found;
    for (std::size_t i = 0; i < found.size(); ++i) {
      const auto each = static_cast<c10::ScalarType>(i);
      if (each != c10::ScalarType::Undefined) found[i] = c10::getDtypeNames(each).first;
    }
    return found;
  }();
  const auto number = static_cast<std::size_t>(type);
  return number < names.size() ? std::string_view(names[number]) : std::string_view();
}

}  // namespace internal

// Convert element types. Throw Error(kUnsupported) for a type that the other side lacks.
inline DType dtype_of(c10::ScalarType type) {
  const auto found = dtype_named(internal::torch_name_of(type));
  if (!found)
    throw Error(Code::kUnsupported, std::string("tensors of torch.") +
                                        std::string(internal::torch_name_of(type)) +
                                        " cannot be sent: publish the plain tensors in them");
  return *found;
}
inline c10::ScalarType scalar_type_of(DType dtype) {
  static const auto types = [] {
    std::array<c10::ScalarType, internal::kDTypes.size()> found;
    found.fill(c10::ScalarType::Undefined);
    for (std::size_t i = 0; i < static_cast<std::size_t>(c10::ScalarType::NumOptions); ++i) {
      const auto type = static_cast<c10::ScalarType>(i);
      if (const auto named = dtype_named(internal::torch_name_of(type)))
        found[static_cast<std::size_t>(*named)] = type;
    }
    return found;
  }();
  const c10::ScalarType type = types.at(static_cast<std::size_t>(dtype));
  if (type == c10::ScalarType::Undefined)
    throw Error(Code::kUnsupported,
                "this PyTorch has no dtype " + std::string(name_of(dtype)) + ": use data()");
  return type;
}

namespace internal {

inline c10::Device torch_device_of(Device device) {
  if (!device.is_cuda()) return c10::Device(c10::DeviceType::CPU);
  return c10::Device(c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(device.ordinal));
}

// Returns the native handle of PyTorch's current stream in this thread.
inline void* current_torch_stream(c10::Device device) {
  if (!c10::impl::hasDeviceGuardImpl(device.type()))
    throw Error(Code::kUnsupported,
                "this tensor lies on a GPU, and this PyTorch cannot use CUDA: use to_dlpack(), or "
                "data()");
  const c10::impl::VirtualGuardImpl guard(device.type());
  return guard.getStreamNativeHandle(guard.getStream(device));
}

// A layout for PyTorch, which has no negative strides: the dimensions `dims` are reversed.
struct Flipped {
  std::vector<std::int64_t> strides;
  std::vector<std::int64_t> dims;
  std::int64_t offset = 0;  // of the element with the lowest address, in elements
};
inline Flipped flipped(const Layout& layout) {
  Flipped made{.strides = {layout.strides.begin(), layout.strides.end()}, .dims = {}, .offset = 0};
  for (std::size_t i = 0; i < made.strides.size(); ++i) {
    if (made.strides[i] >= 0) continue;
    made.offset += (std::max<std::int64_t>(layout.shape[i], 1) - 1) * made.strides[i];
    made.strides[i] = -made.strides[i];
    made.dims.push_back(static_cast<std::int64_t>(i));
  }
  return made;
}

// Restores the attributes: a conjugate or negative view, a leaf that requires gradients.
inline at::Tensor finished(at::Tensor tensor, TensorFlags flags) {
  if (has(flags, TensorFlags::kConjugate)) tensor = tensor.conj();
  if (has(flags, TensorFlags::kNegative)) tensor = tensor._neg_view();
  if (!has(flags, TensorFlags::kRequiresGrad)) return tensor;
  if (!tensor.is_floating_point() && !tensor.is_complex())
    throw Error(Code::kProtocol, "a tensor that requires gradients, but whose dtype has none");
  return tensor.set_requires_grad(true);
}

// Makes a tensor over memory that `keeper` keeps.
template <typename Keeper>
at::Tensor torch_tensor(std::byte* data, const Layout& layout, Device device, Keeper keeper) {
  const c10::Device on = torch_device_of(device);
  const auto options = at::TensorOptions().dtype(scalar_type_of(layout.dtype)).device(on);
  const std::size_t item = item_bytes(layout.dtype);
  require_alignment(data, std::min<std::size_t>(item, alignof(double)), "tensor");
  const Flipped lies = flipped(layout);
  auto kept = std::make_unique<Keeper>(std::move(keeper));
  auto* const first = data + lies.offset * static_cast<std::int64_t>(item);
  at::Tensor tensor =
      at::for_blob(first, at::IntArrayRef(layout.shape.begin(), layout.shape.size()))
          .strides(at::IntArrayRef(lies.strides))
          .context(kept.release(), [](void* held) { delete static_cast<Keeper*>(held); })
          .options(options)
          .target_device(on)
          .make_tensor();
  if (!lies.dims.empty()) tensor = tensor.flip(lies.dims);
  return finished(std::move(tensor), layout.flags);
}

}  // namespace internal

// Makes a PyTorch tensor over the memory of a received tensor. The lease is held while PyTorch
// keeps the memory, in tensors, views and graphs. PyTorch has no read-only tensors: writing to one
// that is not writable() ends the process. A tensor on a GPU is ready for PyTorch's current stream
// in this thread; for other streams, call Tensor::use_on() first. A tensor with negative strides,
// which PyTorch lacks, is copied.
//
//   at::Tensor image = tensorbus::to_torch(sample->tensor("image"));
//   at::Tensor scores = model.forward({image.to(at::kFloat)}).toTensor();
//
// Throws Error(kUnsupported) for elements that PyTorch lacks, and on a GPU if PyTorch has no CUDA;
// Error(kInvalidArgument) if the elements are not aligned.
inline at::Tensor to_torch(const Tensor& tensor) {
  if (tensor.device().is_cuda())
    tensor.use_on(internal::current_torch_stream(internal::torch_device_of(tensor.device())));
  return internal::torch_tensor(const_cast<std::byte*>(tensor.data()), tensor.layout(),
                                tensor.device(), tensor);
}

// Makes a writable PyTorch tensor over a loan. It is valid until the loan is published or
// destroyed.
//
//   tensorbus::Loan loan = publisher.loan<float>({1, 1000});
//   at::softmax_out(tensorbus::to_torch(loan), logits, 1);
//   publisher.publish(std::move(loan), stream);
inline at::Tensor to_torch(const Loan& loan) {
  return internal::torch_tensor(loan.data(), loan.layout(), loan.device(), nullptr);
}

namespace internal {

inline void require_memory(const at::Tensor& tensor) {
  const auto refuse = [](const std::string& what) {
    throw Error(Code::kUnsupported, what + " cannot be sent: publish the plain tensors in it");
  };
  if (!tensor.defined()) refuse("an undefined tensor");
  if (tensor.layout() != c10::Layout::Strided || tensor.is_nested())
    refuse("a tensor that is not strided");
  if (tensor.is_quantized()) refuse("a quantized tensor");
  if (!tensor.is_cpu() && !tensor.is_cuda()) refuse("a tensor on " + tensor.device().str());
  if (!tensor.has_storage() || tensor._is_zerotensor() ||
      (tensor.numel() != 0 && tensor.unsafeGetTensorImpl()->data() == nullptr))
    refuse("a tensor without memory");
}

inline TensorFlags flags_of(const at::Tensor& tensor) {
  TensorFlags flags = TensorFlags::kFromTorch;
  if (tensor.requires_grad()) flags = flags | TensorFlags::kRequiresGrad;
  if (tensor.is_conj()) flags = flags | TensorFlags::kConjugate;
  if (tensor.is_neg()) flags = flags | TensorFlags::kNegative;
  return flags;
}

inline Dims dims_of(at::IntArrayRef values) {
  return Dims(std::span<const std::int64_t>(values.data(), values.size()));
}

}  // namespace internal

// Describes a tensor of PyTorch for publishing, a queue or a share, with its dtype, shape, strides,
// requires_grad, conjugate and negative bits. Python receives it as a torch.Tensor. A tensor in a
// loan and a received tensor are sent by reference. A tensor on a GPU is sent as PyTorch's current
// stream in this thread writes it, and is kept until its readers are done. A tensor in other host
// memory is copied once, by the call that gets the view, and must exist until then.
//
//   publisher.publish(tensorbus::view_of(features));
//   publisher.publish(Value::Map{{"scores", TensorIndex{0}}}, {tensorbus::view_of(scores)});
//
// Throws Error(kUnsupported) for a tensor that is sparse, quantized, or without memory, and for
// elements that cannot be sent.
inline TensorView view_of(const at::Tensor& tensor) {
  internal::require_memory(tensor);
  TensorView view;
  view.data = tensor.unsafeGetTensorImpl()->data();
  view.layout = {dtype_of(tensor.scalar_type()), internal::dims_of(tensor.sizes()),
                 internal::dims_of(tensor.strides()), internal::flags_of(tensor)};
  if (!tensor.is_cuda()) return view;
  view.device = Device::cuda(tensor.device().index());
  view.stream = internal::current_torch_stream(tensor.device());
  view.keeper = std::make_shared<const at::Tensor>(tensor.detach());
  return view;
}

// An allocator with which PyTorch makes tensors in host memory of the bus. These tensors are
// published by reference, any number of times; readers see later writes, as with empty(). The
// allocator `other` makes tensors smaller than `min_bytes`, and tensors for which there is no room.
// PyTorch uses an allocator for the whole process; the allocator must outlive all its tensors:
//
//   static tensorbus::TorchAllocator allocator;
//   c10::SetCPUAllocator(&allocator, 1);
//   at::Tensor scores = at::empty({1000, 1000});  // in memory of the bus
//
// Thread-safe.
class TorchAllocator final : public c10::Allocator {
 public:
  explicit TorchAllocator(Participant participant = Participant::shared(),
                          std::size_t min_bytes = 65'536,
                          c10::Allocator* other = c10::GetCPUAllocator())
      : participant_(std::move(participant)), min_bytes_(min_bytes), other_(other) {}

  c10::DataPtr allocate(std::size_t bytes) override {
    if (bytes < min_bytes_) return other_->allocate(bytes);
    try {
      const auto size = static_cast<std::int64_t>(bytes);
      auto loan = std::make_unique<Loan>(
          empty(Layout::contiguous(DType::kUInt8, {size}), false, participant_));
      std::byte* const first = loan->data();
      return {first, loan.release(), [](void* held) { delete static_cast<Loan*>(held); },
              c10::Device(c10::DeviceType::CPU)};
    } catch (const Error&) {
      return other_->allocate(bytes);
    }
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

 private:
  const Participant participant_;
  const std::size_t min_bytes_;
  c10::Allocator* const other_;
};

}  // namespace tensorbus::inline v0
