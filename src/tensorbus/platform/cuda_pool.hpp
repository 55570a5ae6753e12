#pragma once

#include <array>
#include <cstddef>
#include <memory>

#include "tensorbus/platform/cuda_memory.hpp"

namespace tensorbus::platform {

// Another process's memory pool, as this one has imported it. The driver gives one pool for every
// import of the same, so it is destroyed when the last of these is gone. Thread-safe.
class CudaImportedPool {
 public:
  // Throws Error(kUnsupported), Error(kOutOfMemory).
  CudaImportedPool(const CudaDevice& device, const Fd& descriptor);
  CudaImportedPool(const CudaImportedPool&) = delete;
  CudaImportedPool& operator=(const CudaImportedPool&) = delete;
  ~CudaImportedPool();

  const CudaDevice& device() const noexcept { return device_; }
  cu::MemoryPool handle() const noexcept { return handle_; }

 private:
  const CudaDevice& device_;
  cu::MemoryPool handle_ = nullptr;
};

// An allocation in it, imported. Not to be made twice at a time of the same: drivers take the
// memory from both when one of them goes.
class CudaPooled : public CudaRange {
 public:
  // Throws what CudaImportedPool() throws.
  CudaPooled(std::shared_ptr<const CudaImportedPool> pool, const std::array<std::byte, 64>& name);
  CudaPooled(const CudaPooled&) = delete;
  CudaPooled& operator=(const CudaPooled&) = delete;
  // The streams that used it have passed: the driver waits for none.
  ~CudaPooled();

 private:
  const std::shared_ptr<const CudaImportedPool> pool_;  // goes after the memory
};

}  // namespace tensorbus::platform
