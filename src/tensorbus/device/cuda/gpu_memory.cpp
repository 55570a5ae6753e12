#include "tensorbus/device/gpu_memory.hpp"

#include <cstdint>
#include <string>

#include "tensorbus/platform/error.hpp"

namespace tensorbus::device {
namespace {

cu::Location location_of(const Gpu& device) {
  return {cu::LocationType::kDevice, device.ordinal()};
}

cu::AllocationProp exportable(const Gpu& device) {
  cu::AllocationProp prop{};
  prop.type = cu::AllocationType::kPinned;
  prop.requested_handle_types = cu::HandleType::kPosixFd;
  prop.location = location_of(device);
  // Network cards can then access the memory, if the device supports that.
  prop.flags.rdma_capable =
      device.attribute(cu::DeviceAttribute::kRdmaWithVirtualMemorySupported) != 0 ? 1 : 0;
  return prop;
}

std::string bytes_on(std::size_t bytes, const Gpu& device) {
  return std::to_string(bytes) + " bytes on cuda:" + std::to_string(device.ordinal());
}

}  // namespace

std::vector<const Gpu*> gpu_peers_of(const Gpu& device) {
  const CudaDriver& cuda = CudaDriver::get();
  std::vector<const Gpu*> peers;
  for (const Gpu* other : Gpu::all()) {
    int can = 0;
    if (other != &device &&
        cuda.DeviceCanAccessPeer(&can, other->handle(), device.handle()) == cu::Result::kSuccess &&
        can != 0)
      peers.push_back(other);
  }
  return peers;
}

std::size_t gpu_granularity(const Gpu& device) {
  const CudaDriver& cuda = CudaDriver::get();
  const GpuScope scope(device);
  const cu::AllocationProp prop = exportable(device);
  std::size_t granularity = 0;
  cuda.check(cuda.MemGetAllocationGranularity(&granularity, &prop, cu::Granularity::kRecommended),
             "cuMemGetAllocationGranularity");
  return granularity;
}

GpuAllocation::GpuAllocation(const Gpu& device, std::size_t bytes)
    : device_(&device), bytes_(bytes) {
  const CudaDriver& cuda = CudaDriver::get();
  const GpuScope scope(device);
  const cu::AllocationProp prop = exportable(device);
  cuda.check(cuda.MemCreate(&handle_, bytes, &prop, 0),
             "cuMemCreate of " + bytes_on(bytes, device));
}

GpuAllocation::GpuAllocation(const Gpu& device, const platform::Fd& descriptor, std::size_t bytes)
    : device_(&device), bytes_(bytes) {
  const CudaDriver& cuda = CudaDriver::get();
  const GpuScope scope(device);
  void* const handle = reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor.get()));
  const cu::Result result =
      cuda.MemImportFromShareableHandle(&handle_, handle, cu::HandleType::kPosixFd);
  if (result == cu::Result::kInvalidValue || result == cu::Result::kInvalidHandle)
    throw Error(Code::kProtocol, "expected a descriptor of CUDA memory, got something else: " +
                                     cuda.describe(result));
  cuda.check(result, "cuMemImportFromShareableHandle of " + bytes_on(bytes, device));
}

GpuAllocation::~GpuAllocation() {
  const CudaDriver* const cuda = CudaDriver::in_use();
  if (handle_ != 0 && cuda != nullptr) (void)cuda->MemRelease(handle_);
}

platform::Fd GpuAllocation::descriptor() const {
  const CudaDriver& cuda = CudaDriver::get();
  const GpuScope scope(*device_);
  int fd = -1;
  cuda.check(cuda.MemExportToShareableHandle(&fd, handle_, cu::HandleType::kPosixFd, 0),
             "cuMemExportToShareableHandle of " + bytes_on(bytes_, *device_));
  return platform::Fd(fd);
}

GpuMapping::GpuMapping(std::span<const GpuAllocation> parts, cu::AccessFlags access)
    : GpuRange(parts.front().device(), 0, 0) {
  const CudaDriver& cuda = CudaDriver::get();
  const GpuScope scope(*device_);
  for (const GpuAllocation& part : parts) bytes_ += part.bytes();
  mapped_.reserve(parts.size());
  cuda.check(cuda.MemAddressReserve(&address_, bytes_, 0, 0, 0),
             "cuMemAddressReserve of " + bytes_on(bytes_, *device_));
  try {
    map(parts, access);
  } catch (...) {
    unmap(cuda);
    throw;
  }
}

void GpuMapping::map(std::span<const GpuAllocation> parts, cu::AccessFlags access) {
  const CudaDriver& cuda = CudaDriver::get();
  cu::DevicePtr next = address_;
  for (const GpuAllocation& part : parts) {
    cuda.check(cuda.MemMap(next, part.bytes(), 0, part.handle(), 0),
               "cuMemMap of " + bytes_on(part.bytes(), *device_));
    mapped_.push_back(part.bytes());
    next += part.bytes();
  }
  allow(access);
}

void GpuMapping::allow(cu::AccessFlags access) {
  const CudaDriver& cuda = CudaDriver::get();
  const auto allowed = [&](cu::AccessFlags flags) {
    std::vector<cu::AccessDesc> all{{location_of(*device_), flags}};
    for (const Gpu* peer : gpu_peers_of(*device_)) all.push_back({location_of(*peer), flags});
    if (cuda.MemSetAccess(address_, bytes_, all.data(), all.size()) == cu::Result::kSuccess)
      return cu::Result::kSuccess;
    return cuda.MemSetAccess(address_, bytes_, all.data(), 1);
  };
  if (access == cu::AccessFlags::kRead && allowed(access) == cu::Result::kSuccess) return;
  cuda.check(allowed(cu::AccessFlags::kReadWrite),
             "cuMemSetAccess of " + bytes_on(bytes_, *device_));
}

// Called with the device's context current.
void GpuMapping::unmap(const CudaDriver& cuda) noexcept {
  cu::DevicePtr next = address_;
  for (const std::size_t bytes : mapped_) {
    (void)cuda.MemUnmap(next, bytes);
    next += bytes;
  }
  (void)cuda.MemAddressFree(address_, bytes_);
}

GpuMapping::~GpuMapping() {
  const CudaDriver* const cuda = CudaDriver::in_use();
  if (address_ == 0 || cuda == nullptr) return;
  try {
    const GpuScope scope(*device_);
    unmap(*cuda);
  } catch (const Error&) {  // the device is lost, and its memory with it
  }
}

}  // namespace tensorbus::device
