#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "tensorbus/device/gpu_memory.hpp"

namespace tensorbus::platform {

// Memory of a device that another allocator made, as other processes can be given it: an allocation
// of cudaMalloc, by a handle; chunks of cuMemCreate that are mapped one behind the other (PyTorch's
// expandable segments), by descriptors; an allocation of a pool, by both. The chunks it keeps, an
// allocation it does not.
class ForeignMemory {
 public:
  enum class Kind : std::uint32_t { kLegacy = 1, kChunks = 2, kPool = 3 };  // the numbers travel
  static constexpr std::size_t kMostChunks = 128;  // a descriptor each, here and in each borrower
  struct Chunk {
    cu::DevicePtr base = 0;
    std::uint64_t buffer_id = 0;
    GpuAllocation allocation;
    bool operator==(const Chunk& other) const noexcept {
      return base == other.base && buffer_id == other.buffer_id &&
             allocation.handle() == other.allocation.handle() &&
             allocation.bytes() == other.allocation.bytes();
    }
  };

  // That which holds all of these bytes; nothing if there is no such one, the memory is of another
  // kind (managed memory), or the driver says no.
  static std::optional<ForeignMemory> around(const Gpu& device, const std::byte* first,
                                             std::size_t bytes);

  // Of the device whose memory this is; -1 for any other address.
  static int ordinal_of(const std::byte* address);

  Kind kind() const noexcept { return kind_; }
  const GpuRange& range() const noexcept { return range_; }
  const std::vector<Chunk>& chunks() const noexcept { return chunks_; }
  // Of an allocation: what opens it, or names it in its pool.
  const std::array<std::byte, 64>& handle() const noexcept { return handle_; }
  const Fd& pool() const noexcept { return pool_; }

  // False: others cannot be given it, as with most pools. To be asked once, before it is.
  bool make_shareable();
  // Is all of the other in it? Also when addresses were used again, for the ids of allocations are
  // not (and a chunk that we keep has a handle of its own).
  bool holds(const ForeignMemory& other) const;
  // Does it lie where the other cannot be any more?
  bool replaces(const ForeignMemory& other) const;
  // Is it still there, as it was?
  bool there() const noexcept;

 private:
  ForeignMemory(Kind kind, const GpuRange& range) noexcept : kind_(kind), range_(range) {}
  static std::optional<ForeignMemory> allocation_around(const Gpu& device, cu::DevicePtr address,
                                                        std::size_t bytes, std::uint64_t buffer_id);
  static std::optional<ForeignMemory> pooled_around(const Gpu& device, cu::DevicePtr address,
                                                    std::size_t bytes);
  static std::optional<ForeignMemory> chunks_around(const Gpu& device, cu::DevicePtr address,
                                                    std::size_t bytes);

  bool make_pool_shareable();

  Kind kind_;
  GpuRange range_;
  std::uint64_t buffer_id_ = 0;    // of an allocation
  cu::MemoryPool from_ = nullptr;  // valid for as long as the allocation
  std::array<std::byte, 64> handle_{};
  Fd pool_;  // the pool's own end may come before the allocation's
  std::vector<Chunk> chunks_;
};

// Another process's allocation of cudaMalloc, open here.
class OpenedMemory : public GpuRange {
 public:
  // Throws Error(kUnsupported) if it cannot be opened here, Error(kProtocol) if it is smaller.
  OpenedMemory(const Gpu& device, const cu::IpcMemHandle& handle, std::size_t bytes);
  OpenedMemory(const OpenedMemory&) = delete;
  OpenedMemory& operator=(const OpenedMemory&) = delete;
  // May wait for the device.
  ~OpenedMemory();
};

}  // namespace tensorbus::platform
