// The part of CUDA's runtime that programs of docs/tasks/cuda_ipc.md and <tensorbus/cuda.hpp> call,
// over the driver's functions: so they run with the stand-in for the driver, which CUDA's own
// runtime does not know. The names and numbers are CUDA's.
#pragma once

#include <cstddef>
#include <cstdint>

struct CUstream_st;
struct CUctx_st;
using cudaStream_t = CUstream_st*;
using cudaError_t = int;
inline constexpr cudaError_t cudaSuccess = 0;
inline constexpr unsigned cudaIpcMemLazyEnablePeerAccess = 1;
enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2 };
enum cudaMemoryType { cudaMemoryTypeUnregistered = 0, cudaMemoryTypeDevice = 2 };
struct cudaIpcMemHandle_t {
  char reserved[64];
};
struct cudaPointerAttributes {
  cudaMemoryType type;
  int device;
};

extern "C" {
cudaError_t cuInit(unsigned);
cudaError_t cuDevicePrimaryCtxRetain(CUctx_st**, int);
cudaError_t cuCtxPushCurrent_v2(CUctx_st*);
cudaError_t cuMemAlloc_v2(std::uint64_t*, std::size_t);
cudaError_t cuMemFree_v2(std::uint64_t);
cudaError_t cuMemcpyAsync(std::uint64_t, std::uint64_t, std::size_t, cudaStream_t);
cudaError_t cuStreamSynchronize(cudaStream_t);
cudaError_t cuIpcGetMemHandle(cudaIpcMemHandle_t*, std::uint64_t);
cudaError_t cuIpcOpenMemHandle_v2(std::uint64_t*, cudaIpcMemHandle_t, unsigned);
cudaError_t cuIpcCloseMemHandle(std::uint64_t);
cudaError_t cuGetErrorName(cudaError_t, const char**);
}

namespace cuda_runtime {

inline std::uint64_t address(const void* pointer) {
  return reinterpret_cast<std::uint64_t>(pointer);
}
// Makes the first device's context current in this thread, and returns what the call returns.
template <typename Call>
cudaError_t on_device(Call call) {
  thread_local bool ready = false;
  CUctx_st* context = nullptr;
  if (!ready && (cuInit(0) != 0 || cuDevicePrimaryCtxRetain(&context, 0) != 0 ||
                 cuCtxPushCurrent_v2(context) != 0))
    return 100;  // cudaErrorNoDevice
  ready = true;
  return call();
}

}  // namespace cuda_runtime

inline cudaError_t cudaMalloc(void** pointer, std::size_t bytes) {
  return cuda_runtime::on_device(
      [&] { return cuMemAlloc_v2(reinterpret_cast<std::uint64_t*>(pointer), bytes); });
}
template <typename T>
cudaError_t cudaMalloc(T** pointer, std::size_t bytes) {
  return cudaMalloc(reinterpret_cast<void**>(pointer), bytes);
}
inline cudaError_t cudaFree(void* pointer) {
  return cuda_runtime::on_device([&] { return cuMemFree_v2(cuda_runtime::address(pointer)); });
}
inline cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind) {
  return cuda_runtime::on_device([&] {
    const cudaError_t error =
        cuMemcpyAsync(cuda_runtime::address(to), cuda_runtime::address(from), bytes, nullptr);
    return error == cudaSuccess ? cuStreamSynchronize(nullptr) : error;
  });
}
inline cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* pointer) {
  return cuda_runtime::on_device(
      [&] { return cuIpcGetMemHandle(handle, cuda_runtime::address(pointer)); });
}
inline cudaError_t cudaIpcOpenMemHandle(void** pointer, cudaIpcMemHandle_t handle, unsigned flags) {
  return cuda_runtime::on_device([&] {
    return cuIpcOpenMemHandle_v2(reinterpret_cast<std::uint64_t*>(pointer), handle, flags);
  });
}
inline cudaError_t cudaIpcCloseMemHandle(void* pointer) {
  return cuda_runtime::on_device(
      [&] { return cuIpcCloseMemHandle(cuda_runtime::address(pointer)); });
}
inline cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
// Every address is taken for memory of the first device.
inline cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void*) {
  *attributes = {cudaMemoryTypeDevice, 0};
  return cudaSuccess;
}
inline const char* cudaGetErrorString(cudaError_t error) {
  const char* name = "";
  (void)cuGetErrorName(error, &name);
  return name;
}
