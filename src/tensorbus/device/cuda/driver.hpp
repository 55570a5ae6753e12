#pragma once

#include <string>

#include "tensorbus/device/cuda/api.hpp"

namespace tensorbus::device {

// The functions of this machine's CUDA driver, loaded at first use. Thread-safe.
//
//   const CudaDriver& cuda = CudaDriver::get();
//   cuda.check(cuda.MemCreate(&handle, bytes, &prop, 0), "cuMemCreate of 64 MiB");
class CudaDriver : public cu::Functions {
 public:
  // Returns the driver; the first call loads and initialises it. Without a driver, every call
  // throws Error(kUnsupported) with the reason and the remedy. Throws Error(kForked) in a forked
  // child of the process that initialised the driver.
  static const CudaDriver& get();
  // Returns the driver for clean-up. Returns null in such a forked child, while the process exits
  // (its exit frees its GPU memory), and if the driver was never loaded.
  static const CudaDriver* in_use() noexcept;
  // Returns true in such a forked child, and while the process exits.
  static bool must_be_left_alone() noexcept;

  // Returns the version of CUDA that the driver supports: 12040 for 12.4.
  int version() const noexcept { return version_; }

  // Throws an Error if `result` is not kSuccess: kOutOfMemory, kUnsupported or kSystem, with `what`
  // and the driver's description in its text.
  void check(cu::Result result, const std::string& what) const;
  // Returns e.g. "CUDA_ERROR_OUT_OF_MEMORY (out of memory)".
  std::string describe(cu::Result result) const;

 private:
  CudaDriver();

  int version_ = 0;
};

}  // namespace tensorbus::device
