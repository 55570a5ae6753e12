#pragma once

#include <tensorbus/c/sample.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <tensorbus/internal/call.hpp>
#include <tensorbus/internal/file_ref.hpp>
#include <tensorbus/internal/tensors.hpp>
#include <tensorbus/values/array_view.hpp>
#include <tensorbus/values/device.hpp>
#include <tensorbus/values/layout.hpp>
#include <tensorbus/values/message.hpp>
#include <utility>

namespace tensorbus::inline v0 {

namespace internal {

// A reference to a sample, which keeps it alive. The references of a Sample's own tensors are not
// counted; the references of copies of these tensors are.
class SampleRef {
 public:
  SampleRef() = default;
  static SampleRef given(tb_sample* sample) noexcept { return {sample, true}; }
  static SampleRef uncounted(tb_sample* sample) noexcept { return {sample, false}; }
  SampleRef(const SampleRef& other) noexcept : sample_(other.sample_), counted_(true) {
    tb_sample_retain(sample_);
  }
  SampleRef(SampleRef&& other) noexcept
      : sample_(std::exchange(other.sample_, nullptr)), counted_(other.counted_) {}
  SampleRef& operator=(SampleRef other) noexcept {
    std::swap(sample_, other.sample_);
    std::swap(counted_, other.counted_);
    return *this;
  }
  ~SampleRef() {
    if (sample_ != nullptr && counted_) tb_sample_release(sample_);
  }

  tb_sample* get() const noexcept { return sample_; }
  explicit operator bool() const noexcept { return sample_ != nullptr; }

 private:
  SampleRef(tb_sample* sample, bool counted) noexcept : sample_(sample), counted_(counted) {}

  tb_sample* sample_ = nullptr;
  bool counted_ = false;
};

}  // namespace internal

// A received tensor, or a tensor in a mapped file (file.hpp). Its memory stays while this object or
// a copy of it exists, even if the publisher ends: it is leased from its owner, or belongs to a
// file. The tensor is read-only unless the subscriber requests write access:
//
//   tensorbus::Subscriber subscriber("camera/image", {.access = tensorbus::Access::kPrivate});
//   if (auto sample = subscriber.receive(std::chrono::seconds(1)))
//     for (float& value : sample->tensor().as_mutable<float>()) value /= 255;
//
// Both kinds have the same class, so that code that reads tensors accepts both. The cost for a
// received tensor is one null pointer.
class Tensor {
 public:
  Tensor() = default;

  const Layout& layout() const noexcept { return layout_; }
  DType dtype() const noexcept { return layout_.dtype; }
  const Dims& shape() const noexcept { return layout_.shape; }
  const Dims& strides() const noexcept { return layout_.strides; }  // in elements
  // The first element. Only kernels may access a tensor on a GPU.
  const std::byte* data() const noexcept { return data_; }
  Device device() const noexcept { return device_; }
  // Returns a view for publishing or sharing by reference.
  TensorView view() const { return {data_, layout_, device_}; }
  // The device of the tensor when it was published. It differs from device() if this process cannot
  // use that device and the tensor came through host memory. Its ordinal is then the owner's
  // ordinal.
  Device published_on() const noexcept { return published_on_; }

  // Orders a stream with the writer and the owner of a tensor on a GPU. Call it for every stream (a
  // CUstream or cudaStream_t of its device; null is the legacy default stream) before the stream
  // uses the tensor. Later work of the stream finds the tensor as published, and the owner reuses
  // the memory only after this work has run. The stream must outlive the tensor. `of`: the GPU of
  // the stream, if it is another GPU that can access device()'s memory. Does nothing for host
  // memory. Does not wait, except where streams cannot wait for each other (docs/cuda.md): there
  // the call waits. Throws Error(kUnsupported) for a stream that is being captured into a graph.
  void use_on(void* stream, std::optional<Device> of = std::nullopt) const {
    if (!device_.is_cuda()) return;
    internal::require_done(
        tb_sample_use_on(sample_.get(), index_, stream, internal::number_of(of.value_or(device_))));
  }
  // Returns false if the publisher died before the GPU had written the tensor. Call it after the
  // work on the tensor is done, to find out whether the result is valid.
  bool intact() const noexcept {
    return !device_.is_cuda() || tb_sample_intact(sample_.get()) != 0;
  }

  // Returns the elements. Throws Error(kInvalidArgument) for another element type, a tensor that is
  // not contiguous, a negative or conjugate view of PyTorch (TensorFlags), or an address that is
  // not a multiple of T's alignment.
  template <typename T>
  std::span<const T> as() const {
    require_elements_of(dtype_of<T>(), alignof(T));
    return {reinterpret_cast<const T*>(data_), layout_.elements()};
  }
  // Returns the elements for access by index, with any strides: see ArrayView. Throws
  // Error(kInvalidArgument) for another element type or rank, and like as() otherwise.
  //   const auto rows = tensor.view<float, 2>();
  //   float corner = rows(0, 0);
  template <typename T, std::size_t Rank>
  ArrayView<const T, Rank> view() const {
    internal::require_host(device_, "tensor");
    return internal::array_view<const T, Rank>(reinterpret_cast<const T*>(data_), layout_,
                                               "tensor");
  }

  // Returns true if the tensor may be written to. An option of the subscriber (Access, options.hpp)
  // or of the mapping (FileMode, file_options.hpp) determines which processes see the writes.
  bool writable() const noexcept { return writable_; }
  // Return the same memory, writable. Throw Error(kInvalidArgument) for a read-only tensor.
  std::byte* mutable_data() const {
    if (!writable_)
      throw Error(
          Code::kInvalidArgument,
          file_ ? "this tensor is read-only: to write to it, map its file with "
                  "FileMode::kCopyOnWrite (writes are private) or FileMode::kReadWrite (writes "
                  "reach the file), or copy it"
                : "this tensor is read-only: to write to it, subscribe with Access::kPrivate (only "
                  "this subscriber sees writes) or Access::kShared (all processes see them), or "
                  "copy it");
    return data_;
  }
  template <typename T>
  std::span<T> as_mutable() const {
    require_elements_of(dtype_of<T>(), alignof(T));
    return {reinterpret_cast<T*>(mutable_data()), layout_.elements()};
  }
  template <typename T, std::size_t Rank>
  ArrayView<T, Rank> mutable_view() const {
    internal::require_host(device_, "tensor");
    return internal::array_view<T, Rank>(reinterpret_cast<T*>(mutable_data()), layout_, "tensor");
  }

 private:
  friend class Sample;
  friend class MappedFile;
  Tensor(internal::FileRef file, const tb_tensor& tensor) : file_(std::move(file)) { take(tensor); }
  // Describes the tensor of this index in a sample. The sample owns this object and outlives it.
  void describe(tb_sample* sample, std::uint32_t index) {
    tb_tensor tensor = TB_TENSOR_INIT;
    internal::require_done(tb_sample_tensor(sample, index, &tensor));
    sample_ = internal::SampleRef::uncounted(sample);
    index_ = index;
    take(tensor);
  }
  void take(const tb_tensor& tensor) {
    internal::assign(layout_, tensor.layout);
    data_ = static_cast<std::byte*>(tensor.data);
    device_ = internal::device_of(tensor.device);
    published_on_ = internal::device_of(tensor.published_on);
    writable_ = tensor.writable != 0;
  }
  void require_elements_of(DType dtype, std::size_t alignment) const {
    internal::require_host(device_, "tensor");
    internal::require_type(layout_, dtype, "tensor");
    internal::require_contiguous(layout_, "tensor");
    internal::require_alignment(data_, alignment, "tensor");
  }

  internal::SampleRef sample_;
  internal::FileRef file_;
  std::uint32_t index_ = 0;
  bool writable_ = false;
  std::byte* data_ = nullptr;
  Device device_{};
  Device published_on_{};
  Layout layout_;
};

}  // namespace tensorbus::inline v0
