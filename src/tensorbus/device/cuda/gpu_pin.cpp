#include "tensorbus/device/gpu_pin.hpp"

#include <string>

#include "tensorbus/platform/error.hpp"
#include "tensorbus/platform/files/mapping.hpp"
#include "tensorbus/platform/files/memfd.hpp"

namespace tensorbus::device {

// Portable: registered for all devices, so the context of any device may be current.
HostPin::HostPin(const std::byte* first, std::size_t bytes) : first_(first) {
  const CudaDriver& cuda = CudaDriver::get();
  const GpuScope scope(Gpu::at(0));
  cuda.check(cuda.MemHostRegister(const_cast<std::byte*>(first), bytes,
                                  cu::kHostRegisterPortable | cu::kHostRegisterReadOnly),
             "cuMemHostRegister of " + std::to_string(bytes) + " bytes, read-only");
}

HostPin::~HostPin() {
  const CudaDriver* const cuda = CudaDriver::in_use();
  if (cuda == nullptr) return;
  try {
    const GpuScope scope(Gpu::at(0));
    (void)cuda->MemHostUnregister(const_cast<std::byte*>(first_));
  } catch (const Error&) {  // the device is lost, and the registration with it
  }
}

// Tries to pin a page that is mapped as a borrower maps it.
void require_pinning() {
  try {
    const platform::Fd memfd =
        platform::create_sealed_memfd("tensorbus-pin", platform::page_bytes());
    if (!platform::reserve_pages(memfd.get(), 0, platform::page_bytes()))
      throw Error(Code::kOutOfMemory, "the kernel has no memory for a page");
    const platform::Mapping page(platform::reopen_read_only(memfd.get()).get(),
                                 platform::page_bytes(), platform::Mapping::Access::kRead);
    const HostPin pin(page.data(), page.size());
  } catch (const Error& error) {
    throw Error(Code::kUnsupported, std::string("pin: received memory cannot be pinned for GPUs "
                                                "here; receive without it. ") +
                                        error.what());
  }
}

}  // namespace tensorbus::device
