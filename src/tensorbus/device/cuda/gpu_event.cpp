#include "tensorbus/device/gpu_event.hpp"

#include <new>

#include "tensorbus/platform/error.hpp"

namespace tensorbus::device {

GpuEvent::GpuEvent(const Gpu& device) : device_(device) {
  const CudaDriver& cuda = CudaDriver::get();
  const GpuScope scope(device);
  cuda.check(cuda.EventCreate(&event_, cu::kEventDisableTiming), "cuEventCreate");
}

GpuEvent::~GpuEvent() {
  // The driver keeps an event while a stream waits for it.
  if (const CudaDriver* const cuda = CudaDriver::in_use()) (void)cuda->EventDestroy(event_);
}

void GpuEvent::record(const GpuStream& stream) const {
  stream.check(CudaDriver::get().EventRecord(event_, stream.handle()), "cuEventRecord");
}

void GpuEvent::wait(const GpuStream& stream) const {
  stream.check(CudaDriver::get().StreamWaitEvent(stream.handle(), event_, 0), "cuStreamWaitEvent");
}

bool GpuEvent::has_passed() const noexcept {
  const CudaDriver* const cuda = CudaDriver::in_use();
  if (cuda == nullptr) return false;
  try {
    const GpuScope scope(device_);  // otherwise a capture in another thread forbids the query
    return cuda->EventQuery(event_) != cu::Result::kNotReady;
  } catch (const Error&) {  // the device is lost
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

}  // namespace tensorbus::device
