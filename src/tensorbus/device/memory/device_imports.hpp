#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <tensorbus/values/id.hpp>

#include "tensorbus/device/gpu_memory.hpp"
#include "tensorbus/memory/segment_id.hpp"

namespace tensorbus::device {

// Memory of other allocators in this process: memory opened from other processes, and memory that
// this process lends. The second is listed because a process cannot open its own memory.
// Thread-safe.
class DeviceImports {
 public:
  struct Name {
    Id owner;
    memory::SegmentId segment = 0;
    auto operator<=>(const Name&) const = default;
  };
  using Range = std::shared_ptr<const GpuRange>;

  // While this object exists, find_own() finds the memory under this name.
  class Own {
   public:
    Own(const Name& name, const GpuRange& range);
    ~Own();
    Own(const Own&) = delete;
    Own& operator=(const Own&) = delete;

   private:
    const Name name_;
  };

  // Returns null if there is none.
  static Range find_own(const Name& name);
  // Returns true if this byte lies in memory that this process lends.
  static bool is_own(const std::byte* address) noexcept;

  // Returns true if this byte lies in an allocation that was opened by a handle.
  static bool is_opened(const std::byte* address);

  // Opens an allocation by its handle, which no peer can forge, once for the whole process and
  // device. Throws what OpenedMemory throws. All ranges returned here and below may be released in
  // any thread; DeferredReleaser's thread closes them, because that may wait for a GPU.
  static Range open(const Gpu& device, const cu::IpcMemHandle& handle);
  // Returns the first `bytes` bytes of it. Also throws Error(kProtocol) if the allocation is
  // smaller.
  static Range open(const Gpu& device, const cu::IpcMemHandle& handle, std::size_t bytes);
  // Opens an allocation of a pool by its name in the pool, also once for the process. `afterwards`
  // is released when the returned range has been released; if it was the last range of the
  // allocation, after the memory is freed. Throws what PooledMemory throws, and Error(kProtocol) if
  // the allocation is smaller.
  static Range open_pooled(const Gpu& device, const platform::Fd& pool,
                           const std::array<std::byte, 64>& name, std::size_t bytes,
                           std::shared_ptr<const void> afterwards);
  // Throws what GpuMapping throws.
  static Range map(std::span<const GpuAllocation> chunks);
};

}  // namespace tensorbus::device
