#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tensorbus/device/gpu_memory.hpp"
#include "tensorbus/platform/error.hpp"

namespace tensorbus::device {

// GPU memory of another allocator, in a form that other processes can get. There are three kinds:
// an allocation of cudaMalloc, exported by a handle; adjacent chunks of cuMemCreate (PyTorch's
// expandable segments), exported by descriptors; an allocation of a pool, exported by both. The
// object keeps chunks alive, but not an allocation.
class ForeignMemory {
 public:
  enum class Kind : std::uint32_t { kLegacy = 1, kChunks = 2, kPool = 3 };  // part of the protocol
  static constexpr std::size_t kMaxChunks = 128;  // a descriptor each, here and in each borrower
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

  // Returns the memory that contains all these bytes. Empty if no single allocation or row of
  // chunks contains them, if the memory is of another kind (managed memory), or if the driver
  // refuses.
  static std::optional<ForeignMemory> around(const Gpu& device, const std::byte* first,
                                             std::size_t bytes);

  // Returns the ordinal of the device that has this memory; -1 for any other address.
  static int ordinal_of(const std::byte* address);
  // The same, with the context of a device that is already in use.
  static int ordinal_of(const std::byte* address, const Gpu& asked);
  // Returns the reason why this device memory has no handle of its own.
  static std::string why_no_handle(const Gpu& device, const std::byte* address);

  Kind kind() const noexcept { return kind_; }
  const GpuRange& range() const noexcept { return range_; }
  const std::vector<Chunk>& chunks() const noexcept { return chunks_; }
  // For an allocation: the handle that opens it, or its name in its pool.
  const std::array<std::byte, 64>& handle() const noexcept { return handle_; }
  const platform::Fd& pool() const noexcept { return pool_; }

  // Prepares the export; called once, before the memory is lent. Returns false if other processes
  // cannot get it, as with most pools.
  bool make_shareable();
  // Returns true if all of `other` lies in this memory. Also compares the ids of allocations,
  // because addresses can be reused, and ids are not. (A chunk that is kept has its own handle.)
  bool holds(const ForeignMemory& other) const;
  // Returns true if this is other memory at overlapping addresses, so that `other` must be gone.
  bool replaces(const ForeignMemory& other) const;
  // Returns true if the memory still exists unchanged.
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
  cu::MemoryPool from_ = nullptr;  // valid as long as the allocation
  std::array<std::byte, 64> handle_{};
  platform::Fd pool_;  // kept, because the pool may end before the allocation
  std::vector<Chunk> chunks_;
};

// Thrown if a handle could not be opened. The code is kUnsupported or kOutOfMemory.
class HandleRefused : public Error {
 public:
  enum class Why { kOwn, kGone, kOutOfReach, kOther };
  HandleRefused(const Gpu& device, cu::Result result);
  Why why() const noexcept { return why_; }

 private:
  Why why_;
};

// A whole cudaMalloc allocation of another process, opened in this process.
class OpenedMemory : public GpuRange {
 public:
  // Throws HandleRefused.
  OpenedMemory(const Gpu& device, const cu::IpcMemHandle& handle);
  OpenedMemory(const OpenedMemory&) = delete;
  OpenedMemory& operator=(const OpenedMemory&) = delete;
  // Closes the memory; may wait for the device.
  ~OpenedMemory();
};

}  // namespace tensorbus::device
