#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "tensorbus/device/gpu.hpp"
#include "tensorbus/platform/fd.hpp"

namespace tensorbus::device {

// Returns the granularity, in bytes, of allocations and mappings on this device.
std::size_t gpu_granularity(const Gpu& device);

// Returns the other devices of this process that can access this device's memory.
std::vector<const Gpu*> gpu_peers_of(const Gpu& device);

// Owns GPU memory that can be exported as a descriptor. The memory has an address only while it is
// mapped. Mappings keep the memory, so the allocation may be destroyed before them.
class GpuAllocation {
 public:
  // `bytes` is a multiple of gpu_granularity(). Throws Error(kOutOfMemory), Error(kUnsupported).
  GpuAllocation(const Gpu& device, std::size_t bytes);
  // Imports an allocation of another process. Throws Error(kProtocol) for any other descriptor.
  GpuAllocation(const Gpu& device, const platform::Fd& descriptor, std::size_t bytes);
  // Adopts a handle.
  GpuAllocation(const Gpu& device, cu::AllocationHandle handle, std::size_t bytes) noexcept
      : device_(&device), bytes_(bytes), handle_(handle) {}
  GpuAllocation(GpuAllocation&& other) noexcept
      : device_(other.device_), bytes_(other.bytes_), handle_(std::exchange(other.handle_, 0)) {}
  GpuAllocation& operator=(GpuAllocation&&) = delete;
  ~GpuAllocation();

  const Gpu& device() const noexcept { return *device_; }
  std::size_t bytes() const noexcept { return bytes_; }
  cu::AllocationHandle handle() const noexcept { return handle_; }
  platform::Fd descriptor() const;

 private:
  const Gpu* device_;
  std::size_t bytes_;
  cu::AllocationHandle handle_ = 0;
};

// A range of device addresses in this process. Only kernels may access it, not the CPU.
class GpuRange {
 public:
  GpuRange(const Gpu& device, cu::DevicePtr address, std::size_t bytes) noexcept
      : device_(&device), address_(address), bytes_(bytes) {}

  const Gpu& device() const noexcept { return *device_; }
  cu::DevicePtr address() const noexcept { return address_; }
  std::byte* data() const noexcept { return reinterpret_cast<std::byte*>(address_); }
  std::size_t size() const noexcept { return bytes_; }

 protected:
  const Gpu* device_;
  cu::DevicePtr address_;
  std::size_t bytes_;
};

// Owns the addresses at which allocations are mapped.
class GpuMapping : public GpuRange {
 public:
  // Maps for the allocation's device and for the devices that can access its memory. With kRead,
  // the mapping is read-only if the driver supports that, else readable and writable.
  GpuMapping(const GpuAllocation& allocation, cu::AccessFlags access)
      : GpuMapping(std::span(&allocation, 1), access) {}
  // Maps several allocations at adjacent addresses.
  GpuMapping(std::span<const GpuAllocation> parts, cu::AccessFlags access);
  GpuMapping(const GpuMapping&) = delete;
  GpuMapping& operator=(const GpuMapping&) = delete;
  ~GpuMapping();

 private:
  void map(std::span<const GpuAllocation> parts, cu::AccessFlags access);
  void allow(cu::AccessFlags access);
  void unmap(const CudaDriver& cuda) noexcept;

  std::vector<std::size_t> mapped_;  // bytes of each part
};

}  // namespace tensorbus::device
