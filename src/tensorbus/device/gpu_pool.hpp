#pragma once

#include <array>
#include <cstddef>
#include <memory>

#include "tensorbus/device/gpu_memory.hpp"

namespace tensorbus::platform {

// Another process's memory pool, as this one has imported it. The driver gives one pool for every
// import of the same, so it is destroyed when the last of these is gone. Thread-safe.
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

// An allocation in it, imported. Not to be made twice at a time of the same: drivers take the
// memory from both when one of them goes.
class PooledMemory : public GpuRange {
 public:
  // Throws what ImportedPool() throws.
  PooledMemory(std::shared_ptr<const ImportedPool> pool, const std::array<std::byte, 64>& name);
  PooledMemory(const PooledMemory&) = delete;
  PooledMemory& operator=(const PooledMemory&) = delete;
  // The streams that used it have passed: the driver waits for none.
  ~PooledMemory();

 private:
  const std::shared_ptr<const ImportedPool> pool_;  // goes after the memory
};

}  // namespace tensorbus::platform
