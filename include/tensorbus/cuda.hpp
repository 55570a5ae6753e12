#pragma once

// For programs that use CUDA's runtime. Gives typed device pointers to received tensors, loans and
// other GPU memory, and orders the streams that use them.
#include <cuda_runtime_api.h>
#include <tensorbus/c/ipc.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <tensorbus/internal/call.hpp>
#include <tensorbus/internal/tensors.hpp>
#include <tensorbus/loan.hpp>
#include <tensorbus/sample.hpp>
#include <tensorbus/tensor.hpp>
#include <tensorbus/values/array_view.hpp>
#include <tensorbus/values/device.hpp>
#include <tensorbus/values/error.hpp>
#include <tensorbus/values/layout.hpp>
#include <tensorbus/values/message.hpp>
#include <type_traits>
#include <utility>

#if defined(__CUDACC__)
#define TENSORBUS_HOST_DEVICE __host__ __device__
#else
#define TENSORBUS_HOST_DEVICE
#endif

namespace tensorbus::inline v0 {

// Accesses the elements of a tensor on a GPU by index, with any strides: the counterpart of
// ArrayView. Pass it to a kernel by value. It owns nothing.
//
//   __global__ void scale(DeviceView<float, 2> rows, float factor) {
//     const int column = blockIdx.x * blockDim.x + threadIdx.x;
//     if (column < rows.extent(1)) rows(blockIdx.y, column) *= factor;
//   }
template <typename T, std::size_t Rank>
class DeviceView {
 public:
  explicit DeviceView(const ArrayView<T, Rank>& view) : first_(view.data()) {
    for (std::size_t axis = 0; axis < Rank; ++axis) {
      shape_[axis] = view.extent(axis);
      strides_[axis] = view.stride(axis);
    }
  }

  TENSORBUS_HOST_DEVICE T* data() const { return first_; }
  TENSORBUS_HOST_DEVICE std::int64_t extent(std::size_t axis) const { return shape_[axis]; }
  TENSORBUS_HOST_DEVICE std::int64_t stride(std::size_t axis) const { return strides_[axis]; }

  // Bounds are not checked.
  template <typename... Indices>
  TENSORBUS_HOST_DEVICE T& operator()(Indices... indices) const {
    static_assert(sizeof...(Indices) == Rank, "an index for each dimension");
    const std::int64_t at[]{static_cast<std::int64_t>(indices)..., 0};
    std::int64_t offset = 0;
    for (std::size_t axis = 0; axis < Rank; ++axis) offset += at[axis] * strides_[axis];
    return first_[offset];
  }

 private:
  T* first_;
  std::int64_t shape_[Rank > 0 ? Rank : 1] = {};
  std::int64_t strides_[Rank > 0 ? Rank : 1] = {};
};

namespace internal {

inline void require_cuda(Device device, const char* what) {
  if (!device.is_cuda()) refuse(what, "lies in host memory: use as() or view()");
}

inline void require_success(cudaError_t error, const char* call) {
  if (error != cudaSuccess)
    throw Error(Code::kSystem, std::string(call) + ": " + cudaGetErrorString(error));
}

// Returns the GPU that has this memory; for null, the current GPU.
inline Device device_with(const void* data) {
  int ordinal = 0;
  if (data == nullptr) {
    require_success(cudaGetDevice(&ordinal), "cudaGetDevice");
    return Device::cuda(ordinal);
  }
  cudaPointerAttributes attributes{};
  require_success(cudaPointerGetAttributes(&attributes, data), "cudaPointerGetAttributes");
  if (attributes.type != cudaMemoryTypeDevice)
    throw Error(Code::kInvalidArgument, "this address is not GPU memory");
  return Device::cuda(attributes.device);
}

}  // namespace internal

// Returns the elements of a received tensor for kernels on `stream`. Makes the stream wait until
// the elements are written (Tensor::use_on). Throws Error(kInvalidArgument) for a tensor in host
// memory, for another element type or rank, and, unless T is const, for a read-only tensor.
//
//   const auto image = tensorbus::device_view<const std::uint8_t, 3>(sample->tensor(), stream);
//   normalize<<<grid, block, 0, stream>>>(image, output);
template <typename T, std::size_t Rank>
DeviceView<T, Rank> device_view(const Tensor& tensor, cudaStream_t stream) {
  internal::require_cuda(tensor.device(), "tensor");
  std::byte* data;
  if constexpr (std::is_const_v<T>)
    data = const_cast<std::byte*>(tensor.data());
  else
    data = tensor.mutable_data();
  const auto view =
      internal::array_view<T, Rank>(reinterpret_cast<T*>(data), tensor.layout(), "tensor");
  tensor.use_on(stream);
  return DeviceView<T, Rank>(view);
}

// Returns the elements of a loan, writable.
//
//   tensorbus::Loan loan = publisher.loan<float>({1080, 1920}, tensorbus::Device::cuda());
//   render<<<grid, block, 0, stream>>>(tensorbus::device_view<float, 2>(loan));
//   publisher.publish(std::move(loan), stream);
template <typename T, std::size_t Rank>
DeviceView<T, Rank> device_view(const Loan& loan) {
  internal::require_cuda(loan.device(), "loan");
  return DeviceView<T, Rank>(
      internal::array_view<T, Rank>(reinterpret_cast<T*>(loan.data()), loan.layout(), "loan"));
}

// Like device_view(), but returns a pointer. The tensor or loan must be contiguous.
//
//   const float* weights = tensorbus::device_pointer<const float>(sample->tensor(), stream);
template <typename T>
T* device_pointer(const Tensor& tensor, cudaStream_t stream) {
  internal::require_cuda(tensor.device(), "tensor");
  internal::require_type(tensor.layout(), dtype_of<std::remove_const_t<T>>(), "tensor");
  internal::require_contiguous(tensor.layout(), "tensor");
  tensor.use_on(stream);
  if constexpr (std::is_const_v<T>)
    return reinterpret_cast<T*>(tensor.data());
  else
    return reinterpret_cast<T*>(tensor.mutable_data());
}
template <typename T>
T* device_pointer(const Loan& loan) {
  internal::require_cuda(loan.device(), "loan");
  internal::require_type(loan.layout(), dtype_of<std::remove_const_t<T>>(), "loan");
  internal::require_contiguous(loan.layout(), "loan");
  return reinterpret_cast<T*>(loan.data());
}

// Describes GPU memory of the program, row-major, for publishing or sharing. `stream` is the stream
// that writes it. The memory is copied on its GPU, in the order of that stream. With a `keeper`
// that owns the memory, it is published in place where the driver supports this (TensorView).
//
//   float* scores;
//   cudaMallocAsync(&scores, 1000 * sizeof(float), stream);
//   ...
//   publisher.publish(tensorbus::view_of(scores, {1000}, stream));
//   cudaFreeAsync(scores, stream);
//
// Throws Error(kInvalidArgument) for an address that is not GPU memory.
template <typename T>
TensorView view_of(const T* data, Dims shape, cudaStream_t stream,
                   std::shared_ptr<const void> keeper = nullptr) {
  TensorView view = TensorView::of(data, std::move(shape));
  view.device = internal::device_with(data);
  view.stream = stream;
  view.keeper = std::move(keeper);
  return view;
}

// A CUDA IPC handle of memory of this process, for a program that does not use Tensorbus.
struct IpcHandle {
  cudaIpcMemHandle_t handle{};       // of the whole allocation
  std::size_t offset = 0;            // of the data in it, in bytes
  std::size_t allocation_bytes = 0;  // another program can access all of it
  Device device;                     // in this process
};

// Returns the handle of this GPU memory. It is valid until the memory is freed. Every program that
// opened the handle must close it before that; otherwise the behaviour of CUDA is undefined.
// Synchronise the stream that writes the memory before another program reads it.
//
//   const auto found = tensorbus::ipc_handle(scores, 1000 * sizeof(float));
//   file.write(found.handle.reserved, sizeof found.handle.reserved);
//
// Throws Error(kInvalidArgument) for an address that is not GPU memory. Throws Error(kUnsupported)
// with the reason for memory that has no handle: memory of a pool (cudaMallocAsync) or of
// cuMemCreate (loans), managed memory, and memory opened by a handle.
inline IpcHandle ipc_handle(const void* data, std::size_t bytes) {
  tb_ipc_handle c_handle = TB_IPC_HANDLE_INIT;
  internal::require_done(tb_ipc_handle_of(data, bytes, &c_handle));
  IpcHandle found{.handle = {},
                  .offset = c_handle.offset,
                  .allocation_bytes = c_handle.allocation_bytes,
                  .device = Device::cuda(c_handle.device)};
  static_assert(sizeof found.handle == sizeof c_handle.bytes);
  std::memcpy(&found.handle, c_handle.bytes, sizeof c_handle.bytes);
  return found;
}

struct OpenIpcOptions {
  std::size_t offset = 0;        // of the first element in the allocation, in bytes
  Dims strides{};                // in elements; empty: row-major, no gaps
  std::optional<Device> device;  // the GPU of the memory, in this process; empty: the current one
};

// Returns a writable tensor over memory of another program, by its handle, without a copy. An
// allocation is opened once for each process and GPU. It is closed when the last tensor in it is
// gone and the streams named by Tensor::use_on() or device_view() have finished. These streams must
// outlive the tensors.
//
//   const auto frame = tensorbus::open_ipc<float>(handle, {480, 640});
//   scale<<<grid, block, 0, stream>>>(tensorbus::device_view<float, 2>(frame, stream), 0.5f);
//
// Throws Error(kInvalidArgument) for a handle of this process, for memory on another GPU, and if
// offset, shape and strides reach outside of the allocation; Error(kClosed) if the memory no longer
// exists; Error(kUnsupported) without a driver, or if the GPU cannot reach the memory.
template <typename T>
Tensor open_ipc(const cudaIpcMemHandle_t& handle, Dims shape, const OpenIpcOptions& options = {}) {
  Layout layout = Layout::contiguous(dtype_of<T>(), std::move(shape));
  if (options.strides.size() > 0) layout.strides = options.strides;
  tb_ipc_handle given = TB_IPC_HANDLE_INIT;
  static_assert(sizeof handle == sizeof given.bytes);
  std::memcpy(given.bytes, &handle, sizeof given.bytes);
  given.offset = options.offset;
  given.device = (options.device ? *options.device : internal::device_with(nullptr)).ordinal;
  const tb_layout described = internal::described(layout);
  Sample sample;
  (void)internal::receive_into(
      sample, [&](tb_sample** opened) { return tb_ipc_open(&given, &described, opened); });
  return sample.tensor();
}

}  // namespace tensorbus::inline v0
