#pragma once

#include <array>
#include <cstddef>
#include <memory>

#include "tensorbus/device/gpu_memory.hpp"

namespace tensorbus::device {

// An imported memory pool of another process. The driver returns the same pool for each import of
// it, so the last import destroys the pool. Thread-safe.
class ImportedPool {
 public:
  // Throws Error(kUnsupported), Error(kOutOfMemory).
  ImportedPool(const Gpu& device, const platform::Fd& descriptor);
  ImportedPool(const ImportedPool&) = delete;
  ImportedPool& operator=(const ImportedPool&) = delete;
  ~ImportedPool();

  const Gpu& device() const noexcept { return device_; }
  cu::MemoryPool handle() const noexcept { return handle_; }

 private:
  const Gpu& device_;
  cu::MemoryPool handle_ = nullptr;
};

// An imported allocation of a pool. An allocation must not be imported twice at a time: when one
// import ends, drivers also end the other.
class PooledMemory : public GpuRange {
 public:
  // Throws what ImportedPool() throws.
  PooledMemory(std::shared_ptr<const ImportedPool> pool, const std::array<std::byte, 64>& name);
  PooledMemory(const PooledMemory&) = delete;
  PooledMemory& operator=(const PooledMemory&) = delete;
  // Streams that used the memory must have finished: the driver does not wait for them.
  ~PooledMemory();

 private:
  const std::shared_ptr<const ImportedPool> pool_;  // outlives the memory
};

}  // namespace tensorbus::device
