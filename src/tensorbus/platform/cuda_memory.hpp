#pragma once

#include <cstddef>
#include <utility>

#include "tensorbus/platform/cuda_device.hpp"
#include "tensorbus/platform/fd.hpp"

namespace tensorbus::platform {

// What the sizes of allocations and mappings on this device are multiples of.
std::size_t cuda_granularity(const CudaDevice& device);

// Owns memory of a device that other processes can be given a descriptor of. It has no address
// until it is mapped; mappings keep the memory, so that it may go before they do.
class CudaAllocation {
 public:
  // `bytes` is a multiple of cuda_granularity(). Throws Error(kOutOfMemory), Error(kUnsupported).
  CudaAllocation(const CudaDevice& device, std::size_t bytes);
  // What another process made. Throws Error(kProtocol) for a descriptor of something else.
  CudaAllocation(const CudaDevice& device, const Fd& descriptor, std::size_t bytes);
  CudaAllocation(CudaAllocation&& other) noexcept
      : device_(other.device_), bytes_(other.bytes_), handle_(std::exchange(other.handle_, 0)) {}
  CudaAllocation& operator=(CudaAllocation&&) = delete;
  ~CudaAllocation();

  const CudaDevice& device() const noexcept { return *device_; }
  std::size_t bytes() const noexcept { return bytes_; }
  cu::AllocationHandle handle() const noexcept { return handle_; }
  Fd descriptor() const;

 private:
  const CudaDevice* device_;
  std::size_t bytes_;
  cu::AllocationHandle handle_ = 0;
};

// Owns the addresses at which an allocation is seen by its device.
class CudaMapping {
 public:
  // With kRead it is mapped for reading where the driver can do that, else for both.
  CudaMapping(const CudaAllocation& allocation, cu::AccessFlags access);
  CudaMapping(CudaMapping&& other) noexcept
      : device_(other.device_),
        bytes_(other.bytes_),
        address_(std::exchange(other.address_, 0)),
        mapped_(other.mapped_) {}
  CudaMapping& operator=(CudaMapping&&) = delete;
  ~CudaMapping();

  const CudaDevice& device() const noexcept { return *device_; }
  // Of the device: not for the host to read.
  std::byte* data() const noexcept { return reinterpret_cast<std::byte*>(address_); }
  std::size_t size() const noexcept { return bytes_; }

 private:
  void allow(cu::AccessFlags access);
  void unmap(const CudaDriver& cuda) noexcept;

  const CudaDevice* device_;
  std::size_t bytes_;
  cu::DevicePtr address_ = 0;
  bool mapped_ = false;
};

}  // namespace tensorbus::platform
