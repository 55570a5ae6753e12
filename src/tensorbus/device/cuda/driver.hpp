#pragma once

#include <string>

#include "tensorbus/device/cuda/api.hpp"

namespace tensorbus::platform {

// The functions of the CUDA driver of this machine, loaded when they are first asked for.
//
//   const CudaDriver& cuda = CudaDriver::get();
//   cuda.check(cuda.MemCreate(&handle, bytes, &prop, 0), "cuMemCreate of 64 MiB");
class CudaDriver : public cu::Functions {
 public:
  // Loads and initialises it in the first call. Throws Error(kUnsupported) that says why there is
  // none and what to do, each time; Error(kForked) in a child of the process that initialised it.
  static const CudaDriver& get();
  // For whoever cleans up: null in such a child, once the process exits, since its memory goes with
  // it then, and where it was never loaded.
  static const CudaDriver* in_use() noexcept;

  // The version of CUDA that the driver speaks: 12040 for 12.4.
  int version() const noexcept { return version_; }

  // Throws Error(kOutOfMemory), Error(kUnsupported) or Error(kSystem) that says `what` failed, and
  // how, unless it is kSuccess.
  void check(cu::Result result, const std::string& what) const;
  // "CUDA_ERROR_OUT_OF_MEMORY (out of memory)".
  std::string describe(cu::Result result) const;

 private:
  CudaDriver();

  int version_ = 0;
};

}  // namespace tensorbus::platform
