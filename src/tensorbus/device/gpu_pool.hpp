#pragma once

#include <array>
#include <cstddef>
#include <memory>

#include "tensorbus/device/gpu_memory.hpp"

namespace tensorbus::platform {

// A memory pool of another process, imported. The driver returns the same pool for every import of
// it, so the pool is destroyed with the last import. Thread-safe.
class ImportedPool {
 public:
  // Throws Error(kUnsupported), Error(kOutOfMemory).
  ImportedPool(const Gpu& device, const Fd& descriptor);
  ImportedPool(const ImportedPool&) = delete;
  ImportedPool& operator=(const ImportedPool&) = delete;
  ~ImportedPool();

  const Gpu& device() const noexcept { return device_; }
  cu::MemoryPool handle() const noexcept { return handle_; }

 private:
  const Gpu& device_;
  cu::MemoryPool handle_ = nullptr;
};

// An imported allocation of a pool. The same allocation must not be imported twice at a time: when
// one import ends, drivers take the memory from both.
class PooledMemory : public GpuRange {
 public:
  // Throws what ImportedPool() throws.
  PooledMemory(std::shared_ptr<const ImportedPool> pool, const std::array<std::byte, 64>& name);
  PooledMemory(const PooledMemory&) = delete;
  PooledMemory& operator=(const PooledMemory&) = delete;
  // The streams that used the memory must have finished with it: the driver waits for none.
  ~PooledMemory();

 private:
  const std::shared_ptr<const ImportedPool> pool_;  // outlives the memory
};

}  // namespace tensorbus::platform
