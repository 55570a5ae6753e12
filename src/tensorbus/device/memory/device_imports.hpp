#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <tensorbus/id.hpp>

#include "tensorbus/device/gpu_memory.hpp"
#include "tensorbus/memory/segment_id.hpp"

namespace tensorbus::memory {

// Other allocators' memory in this process: what of others' it has open, and what it lends itself,
// for that cannot be opened in its own process. Thread-safe.
class DeviceImports {
 public:
  struct Name {
    Id owner;
    SegmentId segment = 0;
    auto operator<=>(const Name&) const = default;
  };
  using Range = std::shared_ptr<const platform::GpuRange>;

  // For as long as one lives, this process finds its own memory under that name.
  class Own {
   public:
    Own(const Name& name, const platform::GpuRange& range);
    ~Own();
    Own(const Own&) = delete;
    Own& operator=(const Own&) = delete;

   private:
    const Name name_;
  };

  // Null if there is none.
  static Range find_own(const Name& name);
  // Does this byte lie in some of it?
  static bool is_own(const std::byte* address) noexcept;

  // Both end in any thread, and are closed in one that may wait for a GPU. An allocation is opened
  // once for the whole process, by what nobody can lie about: its handle. Throws what OpenedMemory
  // and GpuMapping throw.
  static Range open(const platform::Gpu& device, const platform::cu::IpcMemHandle& handle,
                    std::size_t bytes);
  // An allocation of a pool, by its name there; the same for that. `afterwards` is let go of when
  // this user is through with it, and it is freed if that was the last. Throws what
  // platform::PooledMemory throws, and Error(kProtocol) if it is smaller.
  static Range open_pooled(const platform::Gpu& device, const platform::Fd& pool,
                           const std::array<std::byte, 64>& name, std::size_t bytes,
                           std::shared_ptr<const void> afterwards);
  static Range map(std::span<const platform::GpuAllocation> chunks);
};

}  // namespace tensorbus::memory
